"""``dovetail migrate server.py``: rewrite a server written for FastMCP or the official SDK to native Dovetail.

The exit status is 0 when all of it was carried over, 1 when marks say what is left to do by hand, 2 when there was
nothing to migrate.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

from ...errors import DovetailError
from ...extras import missing
from ..atomic_files import write_atomically
from ..output import Printer


def main(command: str, arguments: Sequence[str]) -> int:
    """Migrate one file; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="dovetail migrate",
        description="Rewrite a server written for FastMCP 2 to 4, or for the official SDK 1 or 2, to native Dovetail.",
        epilog="Exit status: 0 all of it, 1 with marks (comments '# dovetail: …'), 2 nothing to migrate.",
    )
    parser.add_argument("file", help="a Python file with a server")
    parser.add_argument("--write", action="store_true", help="change the file; otherwise the diff is printed")
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    options = parser.parse_args(list(arguments))
    path = Path(options.file)
    try:
        before = path.read_bytes()
        after = migrated(before)
    except (OSError, DovetailError) as error:
        if isinstance(error, DovetailError) and error.kind == "missing_extra":
            raise
        said = error.message if isinstance(error, DovetailError) else error.strerror
        sys.stderr.write(f"dovetail migrate: {path}: {said}\n")
        return 2
    if options.write and after != before:
        write_atomically(path, after)
    _show(path, before, after, options)
    return 1 if marks(after) else 0


def migrated(source: bytes) -> bytes:
    """The program in ``source`` as a native one; what has been migrated before stays as it is.

    Raises:
        DovetailError: it is no Python, or has no server; or libcst is not installed.
    """
    try:
        from .program import migrate
    except ModuleNotFoundError:
        raise missing("libcst", "dovetail migrate") from None
    return migrate(source)


def marks(source: bytes) -> list[tuple[int, str]]:
    """What is left to do by hand: the line of each comment in the migrated program, and what it says."""
    lines = source.decode(errors="replace").splitlines()
    return [
        (number, line.strip().removeprefix("# dovetail: "))
        for number, line in enumerate(lines, 1)
        if line.strip().startswith("# dovetail: ")
    ]


def _show(path: Path, before: bytes, after: bytes, options: argparse.Namespace) -> None:
    old, new = (text.decode(errors="replace").splitlines() for text in (before, after))
    diff = list(difflib.unified_diff(old, new, str(path), str(path), lineterm=""))
    found = marks(after)
    left = [f"{path}:{line}: {text}" for line, text in found]
    if options.json:
        Printer(json=True).json(
            {
                "file": str(path), "changed": before != after, "written": options.write and before != after,
                "diff": "\n".join(diff), "marks": [{"line": line, "text": text} for line, text in found],
            }
        )  # fmt: skip
        return
    printer = Printer(json=False)
    for line in diff if not options.write else ():
        printer.line(line)
    if before == after:
        printer.line(f"{path}: nothing to change")
    elif options.write:
        printer.line(f"{path}: written")
    # The diff can be given to patch; what is left is for people.
    for line in left:
        sys.stderr.write(line + "\n")
