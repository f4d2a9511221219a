"""``dovetail audit verify FILE``: check that an audit file is unchanged."""

from __future__ import annotations

import msgspec

from ..command_parser import CommandParser
from ..errors import DovetailError
from ..middleware.audit import KEY_VARIABLE, verify
from .output import Printer


def main(command: str, arguments: list[str]) -> int:
    parser = CommandParser("audit", "Check a file written by the Audit middleware.")
    parser.add_argument("action", choices=("verify",))
    of_files = "the newest file; its rotated predecessors are checked too"
    parser.add_argument("file", metavar="FILE", help=of_files)
    of_keys = f"the key of the signatures (default: ${KEY_VARIABLE})"
    parser.add_argument("--key-file", metavar="FILE", help=of_keys)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        key = None
        if options.key_file:
            with open(options.key_file, "rb") as file:
                key = file.read().strip()
        found = verify(options.file, key=key)
    except OSError as error:
        raise DovetailError(f"{options.file}: {error.strerror or error}") from None
    signed = "signatures not checked (no key)"
    if found.signed:
        signed = f"{found.signed} of them signed with this key"
    lines = [f"ok: {found.lines} lines, {found.checkpoints} checkpoints, {signed}"]
    if found.unsigned:
        lines.append(f"{found.unsigned} lines follow the last checkpoint")
    if not found.ended:
        lines.append(f"{options.file}.head is missing, so lines missing at the end cannot be detected")
    Printer(json=options.json).show(
        {"ok": True, "file": options.file, **msgspec.structs.asdict(found)}, lines
    )
    return 0
