"""A clock that tests advance explicitly."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable

from msgspec import Struct


class FakeTimer(Struct, eq=False):
    """A scheduled callback."""

    when: float
    callback: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """A clock for `Client(clock=…)`, and a function that returns the time."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._order = itertools.count()

    def __call__(self) -> float:
        return self._now

    def time(self) -> float:
        return self._now

    def call_later(self, delay: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(self._now + max(0.0, delay), callback)
        heapq.heappush(self._timers, (timer.when, next(self._order), timer))
        return timer

    async def sleep(self, delay: float) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def ring() -> None:
            if not done.done():
                done.set_result(None)

        timer = self.call_later(delay, ring)
        try:
            await done
        finally:
            timer.cancel()

    @property
    def waiting(self) -> list[float]:
        """The times of scheduled callbacks, soonest first."""
        return sorted(when for when, _, timer in self._timers if not timer.cancelled)

    def advance(self, seconds: float) -> None:
        """Advance the time; run due callbacks in order, each at its time."""
        until = self._now + seconds
        while self._timers and self._timers[0][0] <= until:
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            if not timer.cancelled:
                timer.callback()
        self._now = until

    async def run(self, seconds: float, *, steps: int = 10) -> None:
        """Advance the time in small steps, and let tasks run after each."""
        for _ in range(steps):
            self.advance(seconds / steps)
            for _ in range(5):
                await asyncio.sleep(0)
