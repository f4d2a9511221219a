"""So many at once, and a bounded queue before them: first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """``most`` places may be taken at once; ``queue`` callers more may wait for one."""

    __slots__ = ("__weakref__", "_queue", "line", "most", "taken")

    def __init__(self, most: int, queue: int) -> None:
        self.most, self.taken = most, 0
        self._queue = queue
        self.line: deque[asyncio.Future[None]] = deque()
        """Who waits."""

    async def take(self) -> None:
        """Take a place, or wait for one; give it back with `leave`.

        Raises:
            asyncio.QueueFull: too many are waiting already.
        """
        if self.taken < self.most:
            self.taken += 1
        elif len(self.line) >= self._queue:
            raise asyncio.QueueFull
        else:
            await self.wait()

    async def wait(self) -> None:
        """Take a place as soon as it is this caller's turn."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.line.append(turn)
        try:
            await turn  # whoever leaves hands the place over
        except BaseException:
            if not turn.cancelled():
                self.leave()  # it was our turn in the very moment we gave up
            elif turn in self.line:  # whoever left in that moment has taken it out
                self.line.remove(turn)
            raise

    def leave(self) -> None:
        """Give the place to whoever has waited longest, or back."""
        while self.line:
            turn = self.line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.taken -= 1
