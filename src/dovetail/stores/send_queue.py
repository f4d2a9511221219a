"""News that has to leave in order, also while the store is away for a moment."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from .base import GAP, Store, StoreError, StoreFull, StoreUnavailable
from .store_limits import NEWS_PAUSE, NEWS_SECONDS, OUTBOX_BYTES

log = logging.getLogger("dovetail.stores")


class Outbox:
    """Publishes what is put in, in order; at most ``limit`` pieces and `OUTBOX_BYTES` wait, then the oldest go.

    What goes, or is not taken in time, is lost; whoever listens is told that something was, as soon as possible.
    """

    def __init__(self, store: Store, limit: int) -> None:
        self._store = store
        self._limit = limit
        self._size = 0
        self._waiting: deque[tuple[str, bytes, float]] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._lost = self._closing = False

    def put(self, topic: str, message: bytes) -> None:
        loop = asyncio.get_running_loop()
        self._waiting.append((topic, message, loop.time() + NEWS_SECONDS))
        self._size += len(message)
        while len(self._waiting) > self._limit or (self._size > OUTBOX_BYTES and len(self._waiting) > 1):
            self._size -= len(self._waiting.popleft()[1])
            self._lost = True
        if self._sending is None or self._sending.done():
            self._sending = loop.create_task(self._send(), name="dovetail-news")

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting or (self._lost and not self._closing):
            if self._lost:
                self._lost = not await self._sent(GAP, b"", loop.time() + NEWS_SECONDS)
            if self._lost and not self._closing:
                await asyncio.sleep(NEWS_PAUSE)
            elif self._waiting:
                topic, message, latest = self._waiting.popleft()
                self._size -= len(message)
                self._lost = not await self._sent(topic, message, latest) or self._lost

    async def _sent(self, topic: str, message: bytes, latest: float) -> bool:
        """Publish, until ``latest`` if need be; whether that was done."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self._store.publish(topic, message)
                return True
            except StoreError as error:
                away = isinstance(error, StoreUnavailable | StoreFull) and not self._closing
                if not away or loop.time() >= latest:
                    log.warning("other processes were not told: %s", error.message)
                    return False
            await asyncio.sleep(NEWS_PAUSE)

    async def close(self) -> None:
        """Send what is left, if the store takes it at once."""
        self._closing = True
        if self._sending is not None:
            await self._sending
