"""Work that one peer brings all at once, done a little in each turn of the event loop, so that others get theirs.

All such work together has an allowance: what it takes beyond that waits between its turns. So arrays without end leave
most of the time to others, and an array now and then waits for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from time import perf_counter
from typing import Final, TypeVar

from ..settings import AT_ONCE, TURN_SECONDS

T = TypeVar("T")

TURN_ALLOWANCE: Final = 0.05
TURN_SHARE: Final = 0.3
TURN_PAUSE: Final = 0.001
"""Seconds that arrays of all peers take without waiting, how much of all time they get back, and how long one of them
waits between two turns when there is nothing left."""


class _Allowance:
    """Seconds that such work may still take without waiting; they come back at a steady rate."""

    def __init__(self) -> None:
        self._left = TURN_ALLOWANCE
        self._since = perf_counter()

    def pause(self, begun: float) -> float:
        """How long to wait after a turn that began then."""
        now = perf_counter()
        self._left = min(self._left + (now - self._since) * TURN_SHARE, TURN_ALLOWANCE) - (now - begun)
        self._since = now
        return 0 if self._left > 0 else TURN_PAUSE


_allowance = _Allowance()


async def stepwise(steps: Generator[None, None, T]) -> T:
    """What ``steps`` come to; others get their turn whenever they have taken `TURN_SECONDS`."""
    begun = perf_counter()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        if perf_counter() - begun > TURN_SECONDS:
            await asyncio.sleep(_allowance.pause(begun))
            begun = perf_counter()


async def in_turns(items: Sequence[T]) -> AsyncGenerator[Sequence[T]]:
    """``items``, a few at a time: as many as their work fills `TURN_SECONDS` with, however long one of them takes."""
    begun, size = 0, AT_ONCE
    while begun < len(items):
        now = perf_counter()
        yield items[begun : begun + size]
        begun += size
        if begun < len(items):
            await asyncio.sleep(0)  # what was begun runs before us
            quick = perf_counter() - now < TURN_SECONDS
            size = size * 2 if quick else max(1, size // 4)
            if pause := _allowance.pause(now):
                await asyncio.sleep(pause)
