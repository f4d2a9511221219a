"""`EventStore`: the last events of each stream, in memory or in a key-value store of the program's."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any, Final
from uuid import uuid4

from ...mcp.server import streamable_http as sdk
from ...mcp.types import JSONRPCMessage

EVENTS: Final = "fastmcp_events"
STREAMS: Final = "fastmcp_streams"
MOST: Final = 10_000


class _Memory:
    """What a key-value store has, as far as it is used here; of more than `MOST` entries the oldest go."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, str], tuple[float, dict[str, Any]]] = OrderedDict()

    async def get(self, key: str, *, collection: str) -> dict[str, Any] | None:
        ends, value = self._entries.get((collection, key), (0.0, None))
        return value if time.monotonic() < ends else None

    async def put(self, key: str, value: dict[str, Any], *, collection: str, ttl: float | None) -> None:
        ends = float("inf") if ttl is None else time.monotonic() + ttl
        self._entries[collection, key] = ends, value
        self._entries.move_to_end((collection, key))
        if len(self._entries) > MOST:
            self._entries.popitem(last=False)

    async def delete(self, key: str, *, collection: str) -> None:
        self._entries.pop((collection, key), None)


class EventStore(sdk.EventStore):
    """``storage`` has ``get``, ``put`` and ``delete`` by key and collection; each stream keeps so many events."""

    def __init__(self, storage: Any = None, max_events_per_stream: int = 100, ttl: int | None = 3600) -> None:
        self._storage = _Memory() if storage is None else storage
        self._most, self._ttl = max_events_per_stream, ttl

    async def _stream(self, stream_id: str) -> list[str]:
        found = await self._storage.get(stream_id, collection=STREAMS)
        return [] if found is None else list(found["event_ids"])

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        event = str(uuid4())
        data = None if message is None else message.model_dump(mode="json", by_alias=True, exclude_none=True)
        entry = {"event_id": event, "stream_id": stream_id, "message": data}
        await self._storage.put(event, entry, collection=EVENTS, ttl=self._ttl)
        kept = [*await self._stream(stream_id), event]
        for old in kept[: -self._most]:
            await self._storage.delete(old, collection=EVENTS)
        kept = kept[-self._most :]
        await self._storage.put(stream_id, {"event_ids": kept}, collection=STREAMS, ttl=self._ttl)
        return event

    async def replay_events_after(self, last_event_id: str, send_callback: sdk.EventCallback) -> str | None:
        last = await self._storage.get(last_event_id, collection=EVENTS)
        kept = [] if last is None else await self._stream(last["stream_id"])
        if last is None or last_event_id not in kept:
            return None
        for event in kept[kept.index(last_event_id) + 1 :]:
            entry = await self._storage.get(event, collection=EVENTS)
            if entry is not None and entry["message"] is not None:
                message = JSONRPCMessage.model_validate(entry["message"])
                await send_callback(sdk.EventMessage(message, event))
        return last["stream_id"]
