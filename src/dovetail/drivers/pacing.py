"""Work that one peer brings all at once, done a little in each turn of the event loop, so that others get theirs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from time import perf_counter
from typing import TypeVar

from ..settings import AT_ONCE, TURN_SECONDS

T = TypeVar("T")


async def stepwise(steps: Generator[None, None, T]) -> T:
    """What ``steps`` come to; others get their turn whenever they have taken `TURN_SECONDS`."""
    begun = perf_counter()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        if perf_counter() - begun > TURN_SECONDS:
            await asyncio.sleep(0)
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
