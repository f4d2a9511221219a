"""Trace context in ``_meta``: the W3C members ``traceparent``, ``tracestate`` and ``baggage``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MAX_TRACE_MEMBER_LENGTH: Final = 8192
"""Longest member of a trace context, in characters: W3C Baggage requires support for this many.

Longer ones are dropped.
"""

MEMBERS: Final = ("traceparent", "tracestate", "baggage")


def trace_members(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return the valid trace members of ``meta``. A peer may send anything there."""
    found = {name: meta.get(name) for name in MEMBERS}
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, str) and len(value) <= MAX_TRACE_MEMBER_LENGTH
    }
