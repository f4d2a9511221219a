"""``dovetail explain CODE|KIND``: what an error means, its cause, its fix, and whether to try again."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from .. import refusals
from ..command_parser import CommandParser
from ..error_causes import CAUSES
from ..errors import DovetailError
from ..refusals import Explanation

KINDS_LISTED: Final = 3
"""The most kinds with the same code that are listed by name."""


def parser() -> argparse.ArgumentParser:
    result = CommandParser(
        "explain",
        "Show what an error means, its cause, how to fix it, and whether to send the request again.",
    )
    result.add_argument(
        "error",
        metavar="CODE|KIND",
        help="a code such as 1003 or -32602, or a kind such as rate_limited; 'all' lists every refusal",
    )
    result.add_argument("--json", action="store_true", help="print JSON")
    return result


def main(command: str, arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    found = _found(options.error)
    if options.json:
        sys.stdout.write(json.dumps(msgspec.to_builtins(found)) + "\n")
    else:
        sys.stdout.write("".join(_lines(found)))
    return 0


def _found(error: str) -> list[Explanation]:
    if error == "all":
        return list(refusals.REFUSALS)
    if error.removeprefix("-").isdecimal():
        found = refusals.explain(int(error))
        if not found:
            raise DovetailError(f"{int(error)} is not an error code of MCP or of Dovetail")
        return found
    found = refusals.explain_kind(error)
    if not found:
        near = difflib.get_close_matches(error, CAUSES, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        parser().error(
            f"{error[:40]!r} is neither an error code such as 1003 nor an error kind such as rate_limited.{meant}"
        )
    return found


def _lines(found: Sequence[Explanation]) -> Iterator[str]:
    """One paragraph for each kind, with all of its codes. Kinds that only share an official code are counted."""
    shared = [one.kind for one in found[1:] if one.where == "official" and one.code == found[0].code]
    shared = [kind for kind in shared if kind != found[0].kind]
    shown = [one for one in found if one.kind not in shared]
    for kind, group in groupby(shown, key=lambda one: one.kind):
        same = list(group)
        yield f"{kind}: {same[0].meaning}\n"
        if (codes := _codes(same)) != "":
            yield f"  code:  {codes}\n"
        yield f"  cause: {same[0].cause}\n  fix:   {same[0].fix}\n"
        yield f"  retry: {'yes, later' if same[0].retryable else 'not without a change'}\n"
    if shared:
        names = f": {', '.join(shared)}" if len(shared) <= KINDS_LISTED else ""
        more = "1 more kind has" if len(shared) == 1 else f"{len(shared)} more kinds have"
        yield f"{more} the code {found[0].code}{names}. `dovetail explain KIND` explains one, --json all of them.\n"


def _codes(same: Sequence[Explanation]) -> str:
    """Return the codes of one kind, each with the dialects that use it."""
    dialects: dict[int, list[str]] = {}
    for one in same:
        if one.code is not None:
            official = one.where in ("refusal", "official")
            dialects.setdefault(one.code, []).extend([] if official else [one.where])
    return ", ".join(
        f"{code} ({', '.join(names)})" if names else f"{code}" for code, names in dialects.items()
    )
