"""What open pages are told, in bounded portions: a page that is slow misses detail, never memory of ours."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from msgspec import Raw

from .messages import FrameLog

NEWS_WAITING: Final = 5_000
"""What a page that does not listen may miss before it has to look at everything anew."""
NEWS_PAUSE: Final = 0.03
"""Seconds between two attempts to reach an unavailable store."""
NEWS_BYTES: Final = 32 << 20
"""Bytes of events that wait for one page."""


_RELOAD: Final = Raw(b'{"type":"reload"}')


class News:
    """Everybody who listens."""

    def __init__(self, frames: FrameLog) -> None:
        self._frames = frames
        self._listeners: set[Listener] = set()

    def tell(self, kind: str, **members: Any) -> None:
        """Tell all of them."""
        if self._listeners:
            event = Raw(msgspec.json.encode({"type": kind, **members}))
            for listener in self._listeners:
                listener.add(event)

    def stir(self) -> None:
        """There are new frames."""
        for listener in self._listeners:
            listener.wake.set()

    def listen(self) -> Listener:
        listener = Listener(self._frames)
        self._listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)


class Listener:
    """One open page. Frames wait in the log they are kept in anyway; of the rest there is a bounded queue."""

    def __init__(self, frames: FrameLog) -> None:
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
            if len(self._events) > NEWS_WAITING or self._bytes > NEWS_BYTES:
                # It has missed too much: let it look at everything anew.
                self._events, self._missed = [_RELOAD], True
        self.wake.set()

    async def next(self, limit: float) -> dict[str, Any]:
        """What is new, or nothing after ``limit`` seconds, so that somebody notices when the page has gone."""
        try:
            async with asyncio.timeout(limit):
                await self.wake.wait()
                await asyncio.sleep(NEWS_PAUSE)
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
