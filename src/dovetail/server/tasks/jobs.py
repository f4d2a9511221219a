"""The work of tasks while it is done, and who does it: here this process, one asyncio task for each.

`Executor` is all that `work.Tasks` needs to know of it, so that an executor that survives the process, or
spreads over several, can take its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from msgspec import Raw, Struct
from msgspec.structs import replace

from ...core.channel import Call
from ...core.task_faces import related
from ...core.task_machine import TaskMachine
from ...errors import ProtocolError
from ...settings import RETRY_AFTER_MS
from .task_channel import TaskChannel

TASK_CANCEL_SECONDS: Final = 5.0
"""Seconds cancelled work of tasks gets to give in when the server stops."""

Work = Callable[[], Coroutine[Any, Any, None]]


class Job:
    """A task that runs in this process."""

    def __init__(self, machine: TaskMachine, call: Call) -> None:
        self.machine = machine
        self.call = call
        self.channel: TaskChannel
        self.answers: dict[str, asyncio.Future[Raw]] = {}
        """Who waits for which answer."""
        self.taken: set[str] = set()
        """Questions that are on their way to the client on some stream."""
        self.first: asyncio.Future[Struct | Raw] | None = None
        """What the call is answered with, while the handler has not detached."""
        self.lock = asyncio.Lock()
        """States are stored in the order in which they came about."""
        self.fence: int | None = None
        """The number of our lease on it, where other workers may take it up."""
        self.kept = (machine.status, machine.updated)
        """How the store has it, as far as we know."""
        self.abandoned = False
        """Another worker has taken it up: nothing of what is still done here counts."""
        self.keeping: asyncio.Task[None] | None = None
        """Keeps soon what the work said of itself."""
        self._watching: set[asyncio.Future[None]] = set()

    def changed(self) -> asyncio.Future[None]:
        """Done at the next change of the task."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watching.add(future)
        future.add_done_callback(self._watching.discard)
        return future

    def wake(self) -> None:
        for future in tuple(self._watching):
            if not future.done():
                future.set_result(None)

    def related(self, value: Any) -> Any:
        """``value``, a result or params, with its task named in ``_meta`` where the design wants that."""
        if self.machine.face != "core":
            return value
        return replace(value, meta={**(value.meta or {}), **related(self.machine.id)})

    def release(self, key: str) -> None:
        """The stream a question was on is gone: another may take it."""
        self.taken.discard(key)
        self.wake()


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
