"""What `_meta` says of a trace: the members that W3C and OpenTelemetry know, where they can be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..settings import LONGEST_BAGGAGE

MEMBERS: Final = ("traceparent", "tracestate", "baggage")


def readable(meta: Mapping[str, Any]) -> dict[str, str]:
    """The members of a trace in ``meta``: a peer may write anything there."""
    found = {name: meta.get(name) for name in MEMBERS}
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, str) and len(value) <= LONGEST_BAGGAGE
    }
