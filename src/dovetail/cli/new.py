"""``dovetail new NAME``: create a project with a server, tests, a Dockerfile, registry files and a release workflow."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..errors import DovetailError
from ..version import __version__
from .output import Printer

_TEMPLATE: Final = Path(__file__).with_name("template")
"""The files, by path; ``@NAME@``, ``@MODULE@``, ``@OWNER@`` and ``@VERSION@`` are replaced."""
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def main(command: str, arguments: Sequence[str]) -> int:
    """Write the project; returns the exit status."""
    parser = argparse.ArgumentParser(prog="dovetail new", description="Create a project in a new folder.")
    parser.add_argument("name", help="the name of the folder and of the server: a-z, 0-9 and hyphens")
    parser.add_argument("--owner", default="you", help="the owner in registries (default: the user name)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(list(arguments))
    for word in (options.name, options.owner):
        if not _NAME.fullmatch(word) or len(word) > 64:
            sys.stderr.write(
                f"dovetail new: {word!r} is not a valid name: use a-z, 0-9 and hyphens, starting with a letter\n"
            )
            return 2
    folder = Path(options.name)
    written = write(folder, options.name, options.owner)
    steps = [
        f"cd {options.name}",
        "python -m pytest",
        "dovetail dev server.py",
        "dovetail install server.py --into cursor",
    ]
    lines = [f"{options.name} is ready:", *(f"  {step}" for step in steps)]
    Printer(json=options.json).show({"folder": str(folder), "files": written, "next": steps}, lines)
    return 0


def write(folder: Path, name: str, owner: str) -> list[str]:
    """Write all files below ``folder``, which must not exist; returns their names.

    Raises:
        DovetailError: ``folder`` exists.
    """
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise DovetailError(f"{folder} cannot be created: {error.strerror}") from None
    words = {"@NAME@": name, "@MODULE@": name.replace("-", "_"), "@OWNER@": owner, "@VERSION@": __version__}
    written: list[str] = []
    for file in sorted(_TEMPLATE.rglob("*.in")):
        text = file.read_text("utf-8")
        for word, value in words.items():
            text = text.replace(word, value)
        path = folder / file.relative_to(_TEMPLATE).with_suffix("")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path.relative_to(folder).as_posix())
    return written
