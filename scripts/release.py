"""Build a release, try it in empty environments, and print what to upload.

usage: release.py [--quick]

Builds the sdist and the wheel into dist/, checks their metadata, and installs the wheel with each extra into a new
environment. In an environment with every extra it runs the quickstart and the tutorial from the wheel, on each Python
from 3.11 to 3.14 that this machine has. `--quick` installs the extra `all` alone, on the running Python.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
DISTRIBUTION = "dovetail-mcp"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
QUICKSTART = """
import asyncio, pathlib, sys
import dovetail

async def main() -> None:
    command = [str(pathlib.Path(sys.executable).with_name("dovetail")), "run", sys.argv[1]]
    async with dovetail.Client(command) as client:
        assert (await client.call_tool("price", {"city": "Oslo"})).data == 120
        print(f"  quickstart: revision {client.revision}, {len(await client.list_tools())} tools")

asyncio.run(main())
"""


class ReleaseError(Exception):
    """A step failed; its output has been printed."""


def run(*words: str | Path, cwd: Path = ROOT) -> str:
    """Run a command without the source tree on its path; print its output and raise if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        raise ReleaseError(" ".join(str(word) for word in words))
    return done.stdout


def build() -> Path:
    """Build the sdist and the wheel, and check the metadata of both."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST)
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir()))
    (wheel,) = DIST.glob("*.whl")
    return wheel


def interpreters() -> dict[str, str]:
    """The Pythons of this machine that Dovetail supports: version to path."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found: dict[str, str] = {}
    for version in VERSIONS:
        for candidate in (f"python{version}", *map(str, home.glob(f"{version}.*/bin/python"))):
            try:
                answer = subprocess.run(
                    [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"],
                    capture_output=True, text=True, check=False,
                ).stdout.split()  # fmt: skip
            except OSError:
                continue
            if answer[:1] == [version]:
                found[version] = answer[1]
                break
    return found


def install(python: str, folder: Path, *requirements: str) -> Path:
    """Make an empty environment with the given packages; return its interpreter."""
    run(python, "-m", "venv", folder)
    inside = folder / "bin" / "python"
    run(inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
    return inside


def try_documents(python: Path, folder: Path) -> None:
    """Run the quickstart and the tutorial with the installed wheel."""
    folder.mkdir()
    shutil.copy(ROOT / "examples" / "quickstart.py", folder)
    sys.stdout.write(run(python, "-c", QUICKSTART, folder / "quickstart.py", cwd=folder))
    for name in ("tests/test_tutorial.py", "docs/tutorial.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    result = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_tutorial.py", cwd=folder)
    print(f"  tutorial: {result.strip().splitlines()[-1]}")


def try_wheel(wheel: Path, folder: Path, *, quick: bool) -> None:
    """Install the wheel in each way that users do, and run it."""
    version = re.search(r"-([^-]+)-py3", wheel.name)
    assert version is not None
    extras: list[str] = []
    if not quick:
        extras = sorted(
            tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        )
        extras.remove("all")
    for extra in ("", *extras) if not quick else ():
        suffix = f"[{extra}]" if extra else ""
        python = install(
            sys.executable, folder / f"extra-{extra}", f"{DISTRIBUTION}{suffix} @ {wheel.as_uri()}"
        )
        said = run(python.with_name("dovetail"), "--version", cwd=folder).strip()
        if said != f"dovetail {version[1]}":
            raise ReleaseError(f"{wheel.name} says it is {said!r}")
        run(
            python,
            "-c",
            "import dovetail; [getattr(dovetail, name) for name in dovetail.__all__]",
            cwd=folder,
        )
        print(f"  {DISTRIBUTION}{suffix}: installed, imported")
        shutil.rmtree(folder / f"extra-{extra}")
    pythons = {"this": sys.executable} if quick else interpreters()
    for name, path in pythons.items():
        print(f"Python {name}")
        everything = f"{DISTRIBUTION}[all] @ {wheel.as_uri()}"
        python = install(path, folder / f"all-{name}", everything, "pytest")
        try_documents(python, folder / f"documents-{name}")
    missing = [] if quick else [name for name in VERSIONS if name not in pythons]
    if missing:
        print(f"not on this machine: Python {', '.join(missing)}")


def main() -> None:
    wheel = build()
    print(f"built {wheel.name}; metadata is valid")
    with tempfile.TemporaryDirectory() as folder:
        try_wheel(wheel, Path(folder), quick="--quick" in sys.argv[1:])
    print("ready to upload:")
    for path in sorted(DIST.iterdir()):
        print(f"  dist/{path.name}  {path.stat().st_size:,} bytes")
    print("upload: publish a release of this tag; the workflow publish.yml uploads it")
    print("or by hand: .venv/bin/python -m twine upload dist/*")


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        sys.exit(f"release: failed: {error}")
