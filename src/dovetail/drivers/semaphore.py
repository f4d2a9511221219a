"""A semaphore with a bounded queue, in order of arrival."""

from __future__ import annotations

import asyncio
from collections import deque


class QueuedSemaphore:
    """At most ``maximum`` holders at a time. Up to ``queue`` more callers may wait."""

    __slots__ = ("__weakref__", "_queue", "in_use", "maximum", "waiting")

    def __init__(self, maximum: int, queue: int) -> None:
        self.maximum, self.in_use = maximum, 0
        self._queue = queue
        self.waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Acquire a slot at once, or wait for one. Call `release` afterwards.

        Raises:
            asyncio.QueueFull: the queue of waiting callers is full.
        """
        if self.in_use < self.maximum:
            self.in_use += 1
        elif len(self.waiting) >= self._queue:
            raise asyncio.QueueFull
        else:
            await self.wait()

    async def wait(self) -> None:
        """Acquire a slot after the callers that wait already."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        try:
            await turn  # `release` passes its slot on
        except BaseException:
            if not turn.cancelled():
                self.release()  # the slot was passed on while this caller was cancelled
            elif turn in self.waiting:  # `release` may have removed it at the same time
                self.waiting.remove(turn)
            raise

    def release(self) -> None:
        """Pass the slot to the caller that has waited longest, or free it."""
        while self.waiting:
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.in_use -= 1
