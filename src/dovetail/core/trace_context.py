"""What `_meta` says of a trace: the members that W3C and OpenTelemetry know, where they can be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

LONGEST_BAGGAGE: Final = 8192
"""Characters of one member of a trace context: W3C Baggage has everybody pass on so many. Longer ones are left out."""

MEMBERS: Final = ("traceparent", "tracestate", "baggage")


def readable(meta: Mapping[str, Any]) -> dict[str, str]:
    """The members of a trace in ``meta``: a peer may write anything there."""
    found = {name: meta.get(name) for name in MEMBERS}
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, str) and len(value) <= LONGEST_BAGGAGE
    }
