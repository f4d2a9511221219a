"""`EventStore`: the last events of each stream, in memory."""

from __future__ import annotations

import secrets
import time
from collections import deque
from typing import Any

from ...mcp.server import streamable_http as sdk


class EventStore(sdk.EventStore):
    """Raises ValueError: a ``storage`` is given, which would not be written to."""

    def __init__(self, storage: Any = None, max_events_per_stream: int = 100, ttl: int | None = 3600) -> None:
        if storage is not None:
            raise ValueError(
                "storage= is not written to: with DOVETAIL_STORE, a server of ours keeps events itself"
            )
        self._most, self._ttl = max_events_per_stream, float("inf") if ttl is None else ttl
        self._streams: dict[str, deque[tuple[str, float, Any]]] = {}

    async def store_event(self, stream_id: str, message: Any) -> str:
        event = secrets.token_hex(8), time.monotonic(), message
        self._streams.setdefault(stream_id, deque(maxlen=self._most)).append(event)
        return event[0]

    async def replay_events_after(self, last_event_id: str, send_callback: sdk.EventCallback) -> str | None:
        for stream, kept in self._streams.items():
            ids = [event[0] for event in kept]
            if last_event_id in ids:
                for event, written, message in list(kept)[ids.index(last_event_id) + 1 :]:
                    if message is not None and time.monotonic() - written < self._ttl:
                        await send_callback(sdk.EventMessage(message, event))
                return stream
        return None
