"""The work of tasks while it is done, and who does it: here this process, one asyncio task for each.

`Executor` is all that `work.Tasks` needs to know of it, so that an executor that survives the process, or
spreads over several, can take its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

from msgspec import Raw, Struct
from msgspec.structs import replace

from ...core.channel import Call
from ...core.task_machine import TaskMachine
from ...core.task_views import related_task_meta
from ...errors import RETRY_AFTER_MS, ProtocolError
from ...model.meta import PROGRESS_TOKEN
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
        self.run: Callable[[], Awaitable[Struct | Raw]]
        """Runs the call through the chain."""
        self.detaching: asyncio.Event | None = None
        """Set when the task has been stored, or has been removed again."""
        self.timer: asyncio.Timeout | None = None
        """Ends the work when its time is over."""
        self._begin: list[Callable[[str], None]] = []
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

    def on_begin(self, begun: Callable[[str], None]) -> None:
        """Call ``begun`` with the id once this is a task; at once, if it is one."""
        if self.first is None:
            begun(self.machine.id)
        else:
            self._begin.append(begun)

    def begun(self) -> None:
        """Tell that this is a task now."""
        waiting, self._begin = self._begin, []
        for tell in waiting:
            tell(self.machine.id)

    def working(self, call: Call) -> Call:
        """``call`` with a progress token: without one a handler's progress would go nowhere."""
        if self.first is not None or PROGRESS_TOKEN in call.meta:
            return call
        return replace(call, meta={PROGRESS_TOKEN: self.machine.id, **call.meta})

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
        if self.machine.design != "core":
            return value
        return replace(value, meta={**(value.meta or {}), **related_task_meta(self.machine.id)})

    def release(self, key: str) -> None:
        """The stream a question was on is gone: another may take it."""
        self.taken.discard(key)
        self.wake()


class Executor(Protocol):
    """Runs work that outlives the request that asked for it."""

    def start(self, id: str, work: Work, *, limited: bool = True) -> None:
        """Begin ``work`` soon; it reports its end itself and raises nothing.

        Calls that may become tasks are not ``limited`` here: they are as many as requests may be, and what becomes a
        task needs a place in the store.

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

    def start(self, id: str, work: Work, *, limited: bool = True) -> None:
        if limited and len(self._running) >= self._limit:
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
