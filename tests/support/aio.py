"""Run an async test without a plugin: it must end in time and leave no task."""

import asyncio
import functools
import signal
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, ParamSpec

from .waiting import HANG

P = ParamSpec("P")

LIMIT = 2 * HANG
"""Seconds one test may take. Far more than any needs, so that only a hang reaches it."""

SETTLING = 10
"""Turns of the loop in which tasks that are already ending may end."""


async def _settled() -> set[asyncio.Task[Any]]:
    current = asyncio.current_task()
    for _ in range(SETTLING):
        pending = asyncio.all_tasks() - {current}
        if not pending:
            break
        await asyncio.sleep(0)
    return asyncio.all_tasks() - {current}


async def _limited(coroutine: Coroutine[Any, Any, None], limit: float) -> None:
    async with asyncio.timeout(limit):
        await coroutine
    left = await _settled()
    if left:
        names = ", ".join(sorted(repr(task.get_coro()) for task in left))
        raise AssertionError(f"the test left tasks pending: {names}")


def _blocked(signum: int, frame: FrameType | None) -> None:
    raise TimeoutError("the test blocks the event loop")


def run_limited(coroutine: Coroutine[Any, Any, None], limit: float = LIMIT) -> None:
    """Run ``coroutine`` on a separate loop; raise if it outlives ``limit`` or leaves a task pending."""
    # asyncio's own timeout never fires while the loop is blocked; only a signal gets through then.
    alarm = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not alarm:
        asyncio.run(_limited(coroutine, limit))
        return
    previous = signal.signal(signal.SIGALRM, _blocked)
    signal.setitimer(signal.ITIMER_REAL, limit + 1.0)
    try:
        asyncio.run(_limited(coroutine, limit))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def run(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Decorate an ``async def test_…``."""

    @functools.wraps(test)
    def synchronous(*args: P.args, **kwargs: P.kwargs) -> None:
        run_limited(test(*args, **kwargs))

    return synchronous
