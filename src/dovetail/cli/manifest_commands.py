"""``dovetail lock TARGET`` writes the manifest of a server; ``dovetail diff OLD NEW`` compares two manifests.

The exit status of ``diff`` is for continuous integration: 0 if no change matters, 1 if there is a change of a kind in
``--fail-on`` (by default ``breaking`` and ``hint``), 2 for a wrong command line.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from ..errors import DovetailError
from ..manifest import diff, lock
from ..telemetry.terminal_sanitizer import log_to_stderr, printable
from .atomic_files import write_atomically
from .call import client_of, client_parser
from .output import Printer
from .progress_bar import ProgressSteps
from .servers_file import failed


def main(command: str, arguments: Sequence[str]) -> int:
    """Run ``lock`` or ``diff``; returns the exit status."""
    log_to_stderr()
    try:
        return _lock(arguments) if command == "lock" else _diff(arguments)
    except DovetailError:
        raise
    except ValueError as error:
        sys.stderr.write(f"dovetail {command}: {printable(str(error))}\n")
        return 2


def _lock(arguments: Sequence[str]) -> int:
    parser = client_parser(
        "lock", "Write the tools, resources, prompts and schemas of a server to a lock file."
    )
    parser.add_argument(
        "-o",
        "--output",
        default="mcp.lock",
        metavar="FILE",
        help="the lock file; - is stdout (default: mcp.lock)",
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if the file is out of date"
    )
    options = parser.parse_args(list(arguments))
    data = lock.write(asyncio.run(_manifest(options)))
    if options.output == "-":
        sys.stdout.write(printable(data.decode()))
        return 0
    before = None
    if os.path.exists(options.output):
        with open(options.output, "rb") as file:
            before = file.read()
    if not options.check:
        write_atomically(options.output, data)
    state = "unchanged" if before == data else "out of date" if options.check else "written"
    Printer(json=options.json).show({"file": options.output, "state": state}, [f"{options.output}: {state}"])
    return 1 if options.check and before != data else 0


def _diff(arguments: Sequence[str]) -> int:
    parser = client_parser(
        "diff", "Compare two manifests of a server, and show which changes break its clients.", target="old"
    )
    parser.add_argument("new", help="a lock file, or a server: a URL, a Python file or a command")
    parser.add_argument(
        "--fail-on",
        default="breaking,hint",
        metavar="KINDS",
        help=f"exit 1 for these, of {', '.join(diff.KINDS)}, or none (default: breaking,hint)",
    )
    options = parser.parse_args(list(arguments))
    fatal = set(options.fail_on.split(",")) - {"none"}
    if not fatal <= set(diff.KINDS):
        parser.error(f"--fail-on takes {', '.join(diff.KINDS)} or none")
    old, new = (_read(options, target) for target in (options.old, options.new))
    changes = diff.compare(old, new)
    lines = [printable(str(change)) for change in changes] or ["no changes"]
    counts = {kind: sum(change.kind == kind for change in changes) for kind in diff.KINDS}
    Printer(json=options.json).show({"changes": changes, "counts": counts}, lines)
    return 1 if any(change.kind in fatal for change in changes) else 0


def _read(options: argparse.Namespace, target: str) -> lock.Manifest:
    if target.endswith(".lock") and not os.path.exists(target):
        raise DovetailError(f"{target} does not exist: create it with dovetail lock")
    if lock.is_lock(target):
        return lock.read(target)
    return asyncio.run(_manifest(argparse.Namespace(**{**vars(options), "target": target})))


async def _manifest(options: argparse.Namespace) -> lock.Manifest:
    with ProgressSteps.of(options, 4) as steps:
        steps.begin("connection")
        return await _read_lists(options, steps)


async def _read_lists(options: argparse.Namespace, steps: ProgressSteps) -> lock.Manifest:
    async with client_of(options) as client:
        manifest = await lock.manifest_of(client, steps.begin)
        for name, error in failed(client).items():  # a partial manifest is not a contract
            raise DovetailError(f"{name!r} cannot be reached: {error.message}")
        return manifest
