"""So many at once, and a bounded queue before them: first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """``places`` may be taken at once; ``queue`` callers more may wait for one."""

    __slots__ = ("__weakref__", "_free", "_queue", "_waiting")

    def __init__(self, places: int, queue: int) -> None:
        self._free = places
        self._queue = queue
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    async def take(self) -> None:
        """Take a place, or wait for one; give it back with `leave`.

        Raises:
            asyncio.QueueFull: too many are waiting already.
        """
        if self._free:
            self._free -= 1
            return
        if len(self._waiting) >= self._queue:
            raise asyncio.QueueFull
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.cancelled():
                self._waiting.remove(turn)
            else:
                self.leave()  # it was our turn in the very moment we gave up
            raise

    def leave(self) -> None:
        """Give the place to whoever has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
