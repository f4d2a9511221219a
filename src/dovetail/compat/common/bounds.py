"""What others bound or keep over HTTP, by what ours has for it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ...server import Server
from .. import serving


def bound(native: Server, body: int | None, sessions: int | None) -> None:
    """Take requests of at most ``body`` bytes, and hold at most ``sessions``; None leaves it as it is."""
    changes = {"message_size": body, "sessions": sessions}
    native.limits = replace(
        native.limits, **{name: most for name, most in changes.items() if most is not None}
    )


def keeps_events(event_store: Any) -> None:
    """Say that an event store of the program's is not asked: streams are resumed from our own log of events."""
    if event_store is not None:
        name = type(event_store).__name__
        serving.log.warning(
            "event_store=%s is not asked: events are kept, and streams resumed, by ours", name
        )
