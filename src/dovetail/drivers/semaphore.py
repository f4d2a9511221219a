"""A semaphore with a bounded queue: first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque


class QueuedSemaphore:
    """At most ``maximum`` holders at a time; ``queue`` callers more may wait."""

    __slots__ = ("__weakref__", "_queue", "in_use", "maximum", "waiting")

    def __init__(self, maximum: int, queue: int) -> None:
        self.maximum, self.in_use = maximum, 0
        self._queue = queue
        self.waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Acquire at once, or wait for it. Call `release` afterwards.

        Raises:
            asyncio.QueueFull: too many callers are waiting already.
        """
        if self.in_use < self.maximum:
            self.in_use += 1
        elif len(self.waiting) >= self._queue:
            raise asyncio.QueueFull
        else:
            await self.wait()

    async def wait(self) -> None:
        """Acquire after the callers that are waiting already."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        try:
            await turn  # `release` hands its slot over
        except BaseException:
            if not turn.cancelled():
                self.release()  # the slot was handed over in the moment this caller gave up
            elif turn in self.waiting:  # `release` may have removed it in that moment
                self.waiting.remove(turn)
            raise

    def release(self) -> None:
        """Hand the slot to the caller that has waited longest, or free it."""
        while self.waiting:
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.in_use -= 1
