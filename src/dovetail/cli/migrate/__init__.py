"""``dovetail migrate server.py``: rewrite a server for FastMCP or the official SDK for Dovetail.

The exit status is 0 if everything was migrated, 1 if comments mark what to change by hand, 2 if there is nothing to
migrate.
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
        description="Rewrite a server for FastMCP 2 to 4, or for the official SDK 1 or 2, for Dovetail.",
        epilog="Exit status: 0 everything migrated, 1 see the comments '# dovetail: …', 2 nothing to migrate.",
    )
    parser.add_argument("file", help="a Python file with a server")
    parser.add_argument(
        "--write", action="store_true", help="change the file; by default, the diff is printed"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(list(arguments))
    path = Path(options.file)
    try:
        before = path.read_bytes()
        after = migrated(before)
    except (OSError, DovetailError) as error:
        if isinstance(error, DovetailError) and error.kind == "missing_extra":
            raise
        message = error.message if isinstance(error, DovetailError) else error.strerror
        sys.stderr.write(f"dovetail migrate: {path}: {message}\n")
        return 2
    if options.write and after != before:
        write_atomically(path, after)
    _show(path, before, after, options)
    return 1 if marks(after) else 0


def migrated(source: bytes) -> bytes:
    """Return the migrated program of ``source``; migrated parts stay unchanged.

    Raises:
        DovetailError: ``source`` is not Python or has no server, or libcst is not installed.
    """
    try:
        from .program import migrate
    except ModuleNotFoundError:
        raise missing("libcst", "dovetail migrate") from None
    return migrate(source)


def marks(source: bytes) -> list[tuple[int, str]]:
    """Return what to change by hand: the line and the text of each comment in the migrated program."""
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
    # stdout has only the diff, for `patch`; the comments are listed on stderr.
    for line in left:
        sys.stderr.write(line + "\n")
