"""What open pages are told, in bounded portions: a page that is slow misses detail, never memory of ours."""

from __future__ import annotations

import asyncio
from typing import Any

from .bounds import NEWS_PAUSE, NEWS_WAITING
from .frames import FrameLog


class News:
    """Everybody who listens."""

    def __init__(self, frames: FrameLog) -> None:
        self._frames = frames
        self._listeners: set[Listener] = set()

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def tell(self, kind: str, **members: Any) -> None:
        """Tell all of them."""
        event = {"type": kind, **members}
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
        self._events: list[dict[str, Any]] = []
        self.wake = asyncio.Event()

    def add(self, event: dict[str, Any]) -> None:
        if len(self._events) >= NEWS_WAITING:
            self._events = [{"type": "reload"}]  # it has missed too much: let it look at everything anew
        elif not (self._events and self._events[0]["type"] == "reload"):
            self._events.append(event)
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
        events, self._events = self._events, []
        if events:
            found["events"] = events
        frames = self._frames.since(self._cursor)
        if frames:
            found["frames"] = [frame.row() for frame in frames]
            self._cursor = frames[-1].number
            if self._cursor < self._frames.last:
                self.wake.set()
        return found
