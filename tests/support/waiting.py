"""Wait for a condition without an event, without a fixed sleep."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")

HANG = 60.0
"""Seconds after which a wait is a hang; far more than any needs, also where ten others want the same two cores."""

PAUSE = 0.002
TURNS = 20


async def until(condition: Callable[[], Any], limit: float = HANG) -> None:
    """Wait until ``condition`` is true: the end of a connection on the other side, a file, a table."""
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110  the condition has no event
            await asyncio.sleep(PAUSE)


def wait_until(condition: Callable[[], Any]) -> None:
    """The same without an event loop."""
    end = time.monotonic() + HANG
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(PAUSE)


async def reached(connect: Callable[[], Awaitable[T]]) -> T:
    """Return the result of ``connect`` as soon as the server accepts connections."""
    async with asyncio.timeout(HANG):
        while True:
            try:
                return await connect()
            except OSError:
                await asyncio.sleep(PAUSE)


async def found(look: Callable[[], Awaitable[T | None]], limit: float = HANG) -> T:
    """What ``look`` finds, as soon as it finds something."""
    async with asyncio.timeout(limit):
        while (seen := await look()) is None:  # noqa: ASYNC110  as above
            await asyncio.sleep(PAUSE)
        return seen


async def turns(count: int = TURNS) -> None:
    """Let whatever is ready run; for what must not happen, and would if it could."""
    for _ in range(count):
        await asyncio.sleep(0)
