"""Work that one peer brings all at once, done a little in each turn of the event loop, so that others get theirs.

All such work stands in one line: in each turn of the loop one of them does a little, however many there are. Together
they have an allowance, and what they take beyond that waits between two turns. So arrays and large answers without end
leave most of the time to others, and one now and then waits for nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Generator, Sequence
from time import perf_counter
from typing import TypeVar
from weakref import WeakKeyDictionary

from ..settings import (
    AT_ONCE,
    PIECES_AT_ONCE,
    TURN_ALLOWANCE,
    TURN_PAUSE,
    TURN_SECONDS,
    TURN_SHARE,
)
from ..wire.long_results import Body, pieces_of

T = TypeVar("T")


class _Allowance:
    """Seconds that such work may still take without waiting; they come back at a steady rate."""

    def __init__(self) -> None:
        self._left = TURN_ALLOWANCE
        self._since = perf_counter()

    def spend(self, begun: float) -> None:
        """Somebody had a turn that began then."""
        now = perf_counter()
        self._left = min(self._left + (now - self._since) * TURN_SHARE, TURN_ALLOWANCE) - (now - begun)
        self._since = now

    @property
    def pause(self) -> float:
        """How long to wait before the next turn."""
        return 0 if self._left > 0 else TURN_PAUSE


class _Line:
    """Who waits for a turn on one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._until = 0.0
        """Nobody has a turn before that."""
        self.moving = False
        """Somebody waits, or has just been told to go on."""
        self.alone = asyncio.Lock()
        """For what must not lie about half done many times over."""

    async def turn(self) -> None:
        """Wait for the next turn: one of us has it in each turn of the loop, the one who has waited longest."""
        loop = asyncio.get_running_loop()
        if pause := _allowance.pause:
            self._until = perf_counter() + pause
        future = loop.create_future()
        self._waiting.append(future)
        if not self.moving:
            self.moving = True
            loop.call_soon(self._next)
        await future

    def _next(self) -> None:
        loop, early = asyncio.get_running_loop(), self._until - perf_counter()
        if early > 0:
            loop.call_later(early, self._next)
            return
        while self._waiting:
            one = self._waiting.popleft()
            if not one.done():  # else cancelled
                one.set_result(None)
                loop.call_soon(self._next)
                return
        self.moving = False


_allowance = _Allowance()
_lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()


def _line() -> _Line:
    return _lines.setdefault(asyncio.get_running_loop(), _Line())


def one_by_one() -> asyncio.Lock:
    """For work of which only one piece may be under way on this loop; hold it only while nobody else is waited for."""
    return _line().alone


async def stepwise(steps: Generator[None, None, T], seconds: float = TURN_SECONDS) -> T:
    """What ``steps`` come to; others get their turn whenever they have taken so many seconds."""
    line = _line()
    if line.moving:
        await line.turn()
    begun = perf_counter()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        if perf_counter() - begun > seconds:
            _allowance.spend(begun)
            await line.turn()
            begun = perf_counter()


async def turn() -> None:
    """Wait for a turn among all that is heavy: between two pieces of a large message, say."""
    await _line().turn()


async def poured(body: Body) -> AsyncGenerator[bytes]:
    """A large answer, a few pieces in each turn, for who may have to wait for its peer in between."""
    line = _line()
    for number, piece in enumerate(pieces_of(body)):
        if not number % PIECES_AT_ONCE:
            await line.turn()
        yield piece


async def in_turns(items: Sequence[T]) -> AsyncGenerator[Sequence[T]]:
    """``items``, a few at a time: as many as their work fills `TURN_SECONDS` with, however long one of them takes."""
    line, begun, size = _line(), 0, AT_ONCE
    if line.moving and items:
        await line.turn()
    while begun < len(items):
        now = perf_counter()
        yield items[begun : begun + size]
        begun += size
        if begun < len(items):
            await asyncio.sleep(0)  # what was begun runs before us
            quick = perf_counter() - now < TURN_SECONDS
            size = size * 2 if quick else max(1, size // 4)
            _allowance.spend(now)
            await line.turn()
