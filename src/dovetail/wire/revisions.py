"""The published revisions of the protocol, as data: one row each, and `add` for one more.

A version string is an opaque name: look it up in `BY_NAME`, and never compare unknown strings by date. What
sets a revision apart is a column of its row; which members came and went with it are two tables of its row
(`edits/`); which methods it knows lives in `methods.py`. Nobody asks for a revision by its name or number
where a column says what is meant.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from .edits import edit_tables
from .edits.downgrade import Edits, Sieve

Era = Literal["legacy", "modern"]


class Revision(Struct, frozen=True, kw_only=True, eq=False):
    """One published revision. The defaults are what the newest ones have in common."""

    name: str
    """What goes over the wire, for example ``"2025-06-18"``."""
    index: int
    """1 for the oldest; the order of publication. Rows of methods name their first and last revision by it."""
    modern: bool
    """Metadata on every request, requests by the client only. Otherwise: ``initialize`` and sessions."""
    batches: bool = False
    """Arrays of messages must be received."""
    null_error_id: bool = False
    """An error without a readable id says ``"id": null``; otherwise the member is left out."""
    version_header: bool = True
    """``MCP-Protocol-Version`` belongs on HTTP requests."""
    argument_errors: Literal["error", "tool_result"] = "tool_result"
    """How arguments that break a tool's schema are reported."""
    structured_output: bool = True
    """Tools may return a JSON value beside its text."""
    tasks: Literal["none", "core", "extension"] = "extension"
    """Whose design tasks have: that of 2025-11-25, or that of the extension; before them there are none."""
    url_error: bool = False
    """A call that needs a URL visited first fails with -32042."""
    primed_streams: bool = True
    """Clients understand an event without data, with which a resumable stream begins."""
    came: Edits = Edits()
    """What came with this revision: left out, or put in its older form, for all revisions before it."""
    went: Edits = Edits()
    """What went with this revision: left out for it and all that follow."""

    @property
    def era(self) -> Era:
        return "modern" if self.modern else "legacy"

    def __str__(self) -> str:
        return self.name


_rows: list[Revision] = []
REVISIONS: Sequence[Revision] = _rows
"""Oldest first. Grows with `add`: derive nothing from it while modules are imported."""
BY_NAME: dict[str, Revision] = {}


def add(revision: Revision) -> Revision:
    """Know one more revision. Servers and clients made from now on speak it.

    Raises:
        ValueError: it does not follow the newest one, or its name is taken.
    """
    if revision.name in BY_NAME or revision.index != len(_rows) + 1:
        raise ValueError(f"{revision.name} must be new and have the index {len(_rows) + 1}")
    _rows.append(revision)
    BY_NAME[revision.name] = revision
    sieve_for.cache_clear()  # what is new in it is unknown to all others
    return revision


def remove(revision: Revision) -> None:
    """Forget the newest revision again, after trying out a draft.

    Raises:
        ValueError: it is not the newest.
    """
    if _rows[-1] is not revision:
        raise ValueError(f"{revision} is not the newest revision")
    del _rows[-1], BY_NAME[revision.name]
    sieve_for.cache_clear()


def newest(*, modern: bool) -> Revision:
    """The newest revision of an era."""
    return next(revision for revision in reversed(_rows) if revision.modern is modern)


@functools.cache
def sieve_for(revision: Revision) -> Sieve:
    """What makes a value one that this revision knows: its own tables and those of all others."""
    later = [other.came for other in reversed(_rows) if other.index > revision.index]
    gone = [other.went for other in _rows if other.index <= revision.index]
    return Sieve(*later, *gone)


# fmt: off
R1 = add(Revision(
    name="2024-11-05", index=1, modern=False, null_error_id=True, version_header=False, argument_errors="error",
    structured_output=False, tasks="none", primed_streams=False))
R2 = add(Revision(
    name="2025-03-26", index=2, modern=False, batches=True, null_error_id=True, version_header=False,
    argument_errors="error", structured_output=False, tasks="none", primed_streams=False,
    came=edit_tables.CAME_2025_03))
R3 = add(Revision(
    name="2025-06-18", index=3, modern=False, null_error_id=True, argument_errors="error", tasks="none",
    primed_streams=False, came=edit_tables.CAME_2025_06))
R4 = add(Revision(
    name="2025-11-25", index=4, modern=False, tasks="core", url_error=True, came=edit_tables.CAME_2025_11))
R5 = add(Revision(
    name="2026-07-28", index=5, modern=True, came=edit_tables.CAME_2026_07, went=edit_tables.WENT_2026_07))
# fmt: on

ASSUMED = R2
"""The revision of a request over HTTP that names none and belongs to no session, as 2025-06-18 has it."""
