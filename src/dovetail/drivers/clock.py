"""Time as the client sees it: the event loop's, or a test's own (`dovetail.testing.FakeClock`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """What waits and limits are measured with. Times are seconds from an arbitrary beginning."""

    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer: ...

    async def sleep(self, delay: float) -> None: ...


class LoopClock:
    """The clock of the running event loop. Only differences are ever used, so it need not be asked for the time."""

    time = staticmethod(time.monotonic)

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay, callback)

    async def sleep(self, delay: float) -> None:
        await asyncio.sleep(delay)
