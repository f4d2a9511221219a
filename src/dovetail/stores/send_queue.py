"""`SendQueue`: publish messages in order and retry while the store is unavailable."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

from .base import GAP, Store, StoreError, StoreFull, StoreUnavailable

MAX_SEND_QUEUE_BYTES: Final = 64 << 20
"""Messages in a send queue; the oldest are dropped beyond that."""
SEND_QUEUE_TIMEOUT: Final = 30.0
"""How long a message waits for a store that is unavailable."""
SEND_QUEUE_RETRY_DELAY: Final = 0.5
"""Delay between attempts to publish a message."""


log = logging.getLogger("dovetail.stores")


class SendQueue:
    """An ordered queue of at most ``limit`` messages and `MAX_SEND_QUEUE_BYTES`; the oldest are dropped.

    Subscribers receive a gap notification after a message was dropped or not published within
    `SEND_QUEUE_TIMEOUT`.
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
        self._waiting.append((topic, message, loop.time() + SEND_QUEUE_TIMEOUT))
        self._size += len(message)
        while len(self._waiting) > self._limit or (
            self._size > MAX_SEND_QUEUE_BYTES and len(self._waiting) > 1
        ):
            self._size -= len(self._waiting.popleft()[1])
            self._lost = True
        if self._sending is None or self._sending.done():
            self._sending = loop.create_task(self._send_all(), name="dovetail-news")

    async def _send_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting or (self._lost and not self._closing):
            if self._lost:
                self._lost = not await self._publish(GAP, b"", loop.time() + SEND_QUEUE_TIMEOUT)
            if self._lost and not self._closing:
                await asyncio.sleep(SEND_QUEUE_RETRY_DELAY)
            elif self._waiting:
                topic, message, latest = self._waiting.popleft()
                self._size -= len(message)
                self._lost = not await self._publish(topic, message, latest) or self._lost

    async def _publish(self, topic: str, message: bytes, latest: float) -> bool:
        """Publish with retries until ``latest`` and return whether it succeeded."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self._store.publish(topic, message)
                return True
            except StoreError as error:
                away = isinstance(error, StoreUnavailable | StoreFull) and not self._closing
                if not away or loop.time() >= latest:
                    log.warning("publish to other processes failed: %s", error.message)
                    return False
            await asyncio.sleep(SEND_QUEUE_RETRY_DELAY)

    async def close(self) -> None:
        """Send the remaining messages without retries."""
        self._closing = True
        if self._sending is not None:
            await self._sending
