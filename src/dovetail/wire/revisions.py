"""The five published revisions of the protocol, as data.

A version string is an opaque name: look it up in `BY_NAME`, compare revisions by `Revision.index`, and never
compare unknown strings by date. What a revision changes in the *contents* of messages lives in `edits/`;
which methods it knows lives in `methods.py`.
"""

from typing import Literal

from msgspec import Struct

Era = Literal["legacy", "modern"]


class Revision(Struct, frozen=True):
    """One published revision and the rules of its envelope."""

    name: str
    """What goes over the wire, for example ``"2025-06-18"``."""
    index: int
    """1 for the oldest; the order of publication."""
    era: Era
    """Legacy: ``initialize`` and sessions. Modern: metadata on every request, requests by the client only."""
    modern: bool
    """The same as ``era == "modern"``, for the hot path."""
    batches: bool
    """Arrays of messages must be received."""
    null_error_id: bool
    """An error without a readable id says ``"id": null``; otherwise the member is left out."""
    version_header: bool
    """``MCP-Protocol-Version`` belongs on HTTP requests."""
    argument_errors: Literal["error", "tool_result"]
    """How arguments that break a tool's schema are reported."""

    def __str__(self) -> str:
        return self.name


R1 = Revision("2024-11-05", 1, "legacy", False, False, True, False, "error")
R2 = Revision("2025-03-26", 2, "legacy", False, True, True, False, "error")
R3 = Revision("2025-06-18", 3, "legacy", False, False, True, True, "error")
R4 = Revision("2025-11-25", 4, "legacy", False, False, False, True, "tool_result")
R5 = Revision("2026-07-28", 5, "modern", True, False, False, True, "tool_result")

REVISIONS = (R1, R2, R3, R4, R5)
"""Oldest first."""
BY_NAME = {revision.name: revision for revision in REVISIONS}
LATEST = R5
LATEST_LEGACY = R4
