"""``dovetail migrate FILE|FOLDER…``: rewrite servers for FastMCP or the official SDK for Dovetail.

The exit status is 0 if everything was migrated, 1 if comments mark what to change by hand, 2 if there is nothing to
migrate.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...command_parser import CommandParser
from ...errors import DovetailError
from ...extras import missing
from ...imported_packages import ORIGINALS, imported_packages
from ..atomic_files import write_atomically
from ..output import Printer
from ..progress_bar import ProgressSteps


def main(command: str, arguments: Sequence[str]) -> int:
    """Migrate the files; returns the exit status."""
    parser = CommandParser(
        "migrate",
        "Rewrite a server for FastMCP 2 to 4, or for the official SDK 1 or 2, for Dovetail.",
        epilog="Exit status: 0 everything migrated, 1 see the comments '# dovetail: …', 2 nothing to migrate.",
    )
    parser.add_argument(
        "file",
        nargs="+",
        help="a Python file with a server, or a folder: all its files that import the libraries",
    )
    parser.add_argument(
        "--write", action="store_true", help="change the file; by default, the diff is printed"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(list(arguments))
    paths = [path for word in options.file for path in _files(Path(word))]
    done: list[tuple[Path, bytes, bytes]] = []
    failed = not paths
    if failed:
        sys.stderr.write(
            f"dovetail migrate: {', '.join(options.file)}: no file imports FastMCP or the official SDK\n"
        )
    with ProgressSteps.of(options, len(paths)) as steps:
        for path in paths:
            steps.begin(str(path))
            try:
                before = path.read_bytes()
                done.append((path, before, migrated(before)))
            except (OSError, DovetailError) as error:
                if isinstance(error, DovetailError) and error.kind == "missing_extra":
                    raise
                message = error.message if isinstance(error, DovetailError) else error.strerror
                steps.line(f"dovetail migrate: {path}: {message}")
                failed = True
    for path, before, after in done:
        if options.write and after != before:
            write_atomically(path, after)
    several = len(options.file) > 1 or any(Path(word).is_dir() for word in options.file)
    if options.json and (several or done):
        documents = [_document(path, before, after, options) for path, before, after in done]
        Printer(json=True).json({"files": documents} if several else documents[0])
    elif not options.json:
        for path, before, after in done:
            _show(path, before, after, options)
    return 2 if failed else 1 if any(marks(after) for _, _, after in done) else 0


def _files(path: Path) -> list[Path]:
    """Return the file, or the files of a folder that import one of the libraries; hidden folders are left out."""
    if not path.is_dir():
        return [path]
    return [
        one
        for one in sorted(path.rglob("*.py"))
        if not any(part.startswith(".") or part == "node_modules" for part in one.relative_to(path).parts)
        and ORIGINALS & imported_packages(one)
    ]


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


def _diff(path: Path, before: bytes, after: bytes) -> list[str]:
    old, new = (text.decode(errors="replace").splitlines() for text in (before, after))
    return list(difflib.unified_diff(old, new, str(path), str(path), lineterm=""))


def _document(path: Path, before: bytes, after: bytes, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "file": str(path), "changed": before != after, "written": options.write and before != after,
        "diff": "\n".join(_diff(path, before, after)),
        "marks": [{"line": line, "text": text} for line, text in marks(after)],
    }  # fmt: skip


def _show(path: Path, before: bytes, after: bytes, options: argparse.Namespace) -> None:
    printer = Printer(json=False)
    for line in _diff(path, before, after) if not options.write else ():
        printer.line(line)
    if before == after:
        printer.line(f"{path}: nothing to change")
    elif options.write:
        printer.line(f"{path}: written")
    # stdout has only the diff, for `patch`; the comments are listed on stderr.
    for line, text in marks(after):
        sys.stderr.write(f"{path}:{line}: {text}\n")
