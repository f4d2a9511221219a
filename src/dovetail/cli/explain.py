"""``dovetail explain CODE``: what an error code means, what helps, and whether to try again."""

from __future__ import annotations

import argparse
import json
import sys

import msgspec

from .. import refusals
from ..errors import DovetailError


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="dovetail explain",
        description="Say what an error code means, what helps, and whether the same request may succeed later.",
    )
    result.add_argument("code", help="a number such as 1003 or -32010; 'all' lists every refusal")
    result.add_argument("--json", action="store_true", help="for programs")
    return result


def main(command: str, arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    if options.code != "all" and not _is_number(options.code):
        parser().error(f"a code is a number such as 1003 or -32010, not {options.code[:40]!r}")
    found = _found(options.code)
    if options.json:
        sys.stdout.write(json.dumps(msgspec.to_builtins(found)) + "\n")
        return 0
    for one in found:
        again = "try again later" if one.retryable else "do not repeat it as it is"
        whose = "" if one.where in ("refusal", "official") else f" ({one.where})"
        sys.stdout.write(f"{one.code}  {one.kind}{whose}: {one.meaning}\n      {one.hint}\n      {again}\n")
    return 0


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdecimal()


def _found(code: str) -> list[refusals.Explanation]:
    if code == "all":
        return list(refusals.REFUSALS)
    found = refusals.explain(int(code))
    if not found:
        raise DovetailError(f"no error of MCP has the code {int(code)}")
    return found
