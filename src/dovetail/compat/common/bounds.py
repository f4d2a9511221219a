"""What others bound or keep over HTTP, by what ours has for it."""

from __future__ import annotations

import os
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


def history_of(event_store: Any) -> Any:
    """What tells an event store of the program's of every event, and asks it when a client comes back.

    Raises:
        TypeError: it is none.
    """
    if event_store is None:
        return None
    from ..mcp.server.kept_events import ToldEvents  # few programs have one

    if os.environ.get("DOVETAIL_STORE"):
        serving.log.warning("event_store= is not asked: DOVETAIL_STORE keeps the events, for all processes")
    return ToldEvents(event_store)
