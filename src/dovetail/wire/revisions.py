"""The published protocol revisions, one row each. `add` registers another one.

A version string is an opaque name: look it up in `BY_NAME`, and never compare unknown strings by date.
Differences between revisions are columns of the row; changed members are two edit tables of the row
(`edits/`); the methods of a revision are in `methods.py`. Code checks a column, never the name or number of a
revision.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from .edits import edit_tables
from .edits.downgrade import Downgrade, Edits

Era = Literal["legacy", "modern"]


class Revision(Struct, frozen=True, kw_only=True, eq=False):
    """One published revision. The defaults are those of the newest revisions."""

    name: str
    """The version string in messages, for example ``"2025-06-18"``."""
    index: int
    """Position in the order of publication, from 1. Rows of methods refer to it."""
    modern: bool
    """Metadata in every request, and requests by the client only. Otherwise: ``initialize`` and sessions."""
    batches: bool = False
    """Batches must be accepted."""
    null_error_id: bool = False
    """An error without a readable id has ``"id": null``; otherwise the member is left out."""
    version_header: bool = True
    """HTTP requests have the header ``MCP-Protocol-Version``."""
    argument_errors: Literal["error", "tool_result"] = "tool_result"
    """How invalid tool arguments are reported."""
    structured_output: bool = True
    """Tools may return structured content in addition to text."""
    tasks: Literal["none", "core", "extension"] = "extension"
    """The task design: that of 2025-11-25 (core), that of the extension, or no tasks."""
    url_error: bool = False
    """A call that requires visiting a URL first fails with -32042."""
    primed_streams: bool = True
    """Clients accept an event without data, which starts a resumable stream."""
    added: Edits = Edits()
    """What this revision added: removed or converted for all earlier revisions."""
    removed: Edits = Edits()
    """What this revision removed: removed from it and all later revisions."""

    @property
    def era(self) -> Era:
        return "modern" if self.modern else "legacy"

    def __str__(self) -> str:
        return self.name


_rows: list[Revision] = []
REVISIONS: Sequence[Revision] = _rows
"""Oldest first. `add` appends to it: do not derive constants from it at import time."""
BY_NAME: dict[str, Revision] = {}


def add(revision: Revision) -> Revision:
    """Register a new revision. Servers and clients created afterwards support it.

    Raises:
        ValueError: it does not follow the newest one, or its name exists.
    """
    if revision.name in BY_NAME or revision.index != len(_rows) + 1:
        raise ValueError(f"{revision.name} must have a new name and the index {len(_rows) + 1}")
    _rows.append(revision)
    BY_NAME[revision.name] = revision
    downgrade_for.cache_clear()  # its additions are unknown to all others
    return revision


def remove(revision: Revision) -> None:
    """Remove the newest revision, after trying out a draft.

    Raises:
        ValueError: it is not the newest.
    """
    if _rows[-1] is not revision:
        raise ValueError(f"{revision} is not the newest revision")
    del _rows[-1], BY_NAME[revision.name]
    downgrade_for.cache_clear()


def newest(*, modern: bool) -> Revision:
    """Return the newest revision of an era."""
    return next(revision for revision in reversed(_rows) if revision.modern is modern)


@functools.cache
def downgrade_for(revision: Revision) -> Downgrade:
    """Return the downgrade for this revision, from its own tables and those of all others."""
    later = [other.added for other in reversed(_rows) if other.index > revision.index]
    gone = [other.removed for other in _rows if other.index <= revision.index]
    return Downgrade(*later, *gone)


# fmt: off
R1 = add(Revision(
    name="2024-11-05", index=1, modern=False, null_error_id=True, version_header=False, argument_errors="error",
    structured_output=False, tasks="none", primed_streams=False))
R2 = add(Revision(
    name="2025-03-26", index=2, modern=False, batches=True, null_error_id=True, version_header=False,
    argument_errors="error", structured_output=False, tasks="none", primed_streams=False,
    added=edit_tables.ADDED_2025_03))
R3 = add(Revision(
    name="2025-06-18", index=3, modern=False, null_error_id=True, argument_errors="error", tasks="none",
    primed_streams=False, added=edit_tables.ADDED_2025_06))
R4 = add(Revision(
    name="2025-11-25", index=4, modern=False, tasks="core", url_error=True, added=edit_tables.ADDED_2025_11))
R5 = add(Revision(
    name="2026-07-28", index=5, modern=True, added=edit_tables.ADDED_2026_07, removed=edit_tables.REMOVED_2026_07))
# fmt: on

ASSUMED = R2
"""The revision of an HTTP request without version header and session, as 2025-06-18 defines."""
