"""The events for open pages, with bounded queues: a slow page loses details, and the process does not grow."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from msgspec import Raw

from .messages import MessageLog

MAX_QUEUED_EVENTS: Final = 5_000
"""Queued events of a slow page; beyond that it must load the whole state again."""
EVENT_BATCH_DELAY: Final = 0.03
"""Seconds to wait for further events, so that a page gets them together."""
MAX_QUEUED_EVENT_BYTES: Final = 32 << 20
"""Bytes of events that wait for one page."""


_RELOAD: Final = Raw(b'{"type":"reload"}')


class PageEvents:
    """All open pages."""

    def __init__(self, frames: MessageLog) -> None:
        self._frames = frames
        self._listeners: set[PageListener] = set()

    def tell(self, kind: str, **members: Any) -> None:
        """Send an event to all pages."""
        if self._listeners:
            event = Raw(msgspec.json.encode({"type": kind, **members}))
            for listener in self._listeners:
                listener.add(event)

    def stir(self) -> None:
        """Notify all pages of new messages."""
        for listener in self._listeners:
            listener.wake.set()

    def listen(self) -> PageListener:
        listener = PageListener(self._frames)
        self._listeners.add(listener)
        return listener

    def leave(self, listener: PageListener) -> None:
        self._listeners.discard(listener)


class PageListener:
    """One open page. Messages stay in their log; other events have a bounded queue."""

    def __init__(self, frames: MessageLog) -> None:
        self._frames = frames
        self._cursor = frames.last
        self._events: list[Raw] = []
        self._bytes = 0
        self._missed = False
        self.wake = asyncio.Event()

    def add(self, event: Raw) -> None:
        if not self._missed:
            self._events.append(event)
            self._bytes += len(memoryview(event))
            if len(self._events) > MAX_QUEUED_EVENTS or self._bytes > MAX_QUEUED_EVENT_BYTES:
                # It has missed too much: it must load the whole state again.
                self._events, self._missed = [_RELOAD], True
        self.wake.set()

    async def next(self, limit: float) -> dict[str, Any]:
        """Return new events, or none after ``limit`` seconds, so that a closed page is detected."""
        try:
            async with asyncio.timeout(limit):
                await self.wake.wait()
                await asyncio.sleep(EVENT_BATCH_DELAY)
        except TimeoutError:
            return {}
        self.wake.clear()
        found: dict[str, Any] = {}
        events, self._events, self._bytes, self._missed = self._events, [], 0, False
        if events:
            found["events"] = events
        frames = self._frames.since(self._cursor)
        if frames:
            found["frames"] = [frame.row() for frame in frames]
            self._cursor = frames[-1].number
            if self._cursor < self._frames.last:
                self.wake.set()
        return found
