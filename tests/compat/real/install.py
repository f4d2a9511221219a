"""Install public servers from the package registry, each with its original library: `python -m … [NAME…]`."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
HOME = ROOT / ".peers" / "real"
SERVERS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "servers.json").read_text())
ORIGINALS = ("mcp<=1.30.0", "fastmcp<=3.4.10")
"""The newest original a server may bring; some bring an older one."""
NEEDED = ("msgspec==0.22.0",)
"""The additional packages that Dovetail needs."""


def installed(name: str) -> Path:
    """The Python of the server's environment, which is made where it is not there."""
    folder, entry = HOME / name, SERVERS[name]
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        bounds = folder / "originals.txt"
        bounds.write_text("\n".join(entry.get("originals", ORIGINALS)) + "\n")
        wanted = (f"{entry['package']}=={entry['version']}", *NEEDED)
        words = (
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--constraint",
            bounds,
        )
        subprocess.run([str(word) for word in (*words, *wanted)], timeout=1800, check=True)
        (folder / ".ready").touch()
    return python


if __name__ == "__main__":
    for one in sys.argv[1:] or SERVERS:
        installed(one)
