"""Who does the work of tasks. Here: this process, one asyncio task for each.

`Executor` is all that `tasks.Tasks` needs to know of it, so that an executor that survives the process, or
spreads over several, can take its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from ...errors import ProtocolError
from ...settings import RETRY_AFTER_MS, TASK_CANCEL_SECONDS

Work = Callable[[], Coroutine[Any, Any, None]]


class Executor(Protocol):
    """Runs work that outlives the request that asked for it."""

    def start(self, id: str, work: Work) -> None:
        """Begin ``work`` soon; it reports its end itself and raises nothing.

        Raises:
            ProtocolError: of kind ``too_many_tasks``.
        """
        ...

    def cancel(self, id: str) -> None:
        """Stop the work; unknown or finished work is none of our business."""
        ...

    async def close(self) -> None:
        """Stop everything and wait for it, not for ever."""
        ...


class InProcessExecutor:
    """At most ``limit`` pieces of work at once, on the event loop of whoever starts them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running: dict[str, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._running)

    def start(self, id: str, work: Work) -> None:
        if len(self._running) >= self._limit:
            raise too_many(self._limit)
        task = asyncio.get_running_loop().create_task(work(), name=f"dovetail-task-{id[-8:]}")
        self._running[id] = task
        task.add_done_callback(lambda _: self._running.pop(id, None))

    def cancel(self, id: str) -> None:
        task = self._running.get(id)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        # Work of another event loop ended with it.
        loop = asyncio.get_running_loop()
        tasks = [task for task in self._running.values() if task.get_loop() is loop]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=TASK_CANCEL_SECONDS)
        self._running.clear()


def too_many(limit: int) -> ProtocolError:
    """There is no room for another task."""
    return ProtocolError(
        "too_many_tasks",
        f"this server holds at most {limit} tasks",
        data={"limit": limit, "retryAfterMs": RETRY_AFTER_MS},
    )
