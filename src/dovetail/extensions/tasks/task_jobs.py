"""`Job`: a running task; `Executor`: runs jobs, in this process as one asyncio task each.

`Tasks` depends only on the `Executor` protocol, so another executor can replace it, for example a durable or
distributed one.
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
"""Seconds that cancelled tasks get to clean up when the server stops."""

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
        """Cancels the work when its time to live is over."""
        self._begin: list[Callable[[str], None]] = []
        self.answers: dict[str, asyncio.Future[Raw]] = {}
        """The futures of unanswered input requests, by key."""
        self.taken: set[str] = set()
        """The keys of input requests that are being sent to the client on some stream."""
        self.first: asyncio.Future[Struct | Raw] | None = None
        """The response to the call, while the handler has not detached."""
        self.lock = asyncio.Lock()
        """Serializes writes to the store, so that states are stored in order."""
        self.fence: int | None = None
        """The fencing number of this worker's lease, where other workers may resume the task."""
        self.kept = (machine.status, machine.updated)
        """The state last stored, as far as this process knows."""
        self.abandoned = False
        """Another worker has resumed the task: results of this one are discarded."""
        self.keeping: asyncio.Task[None] | None = None
        """Stores progress messages after a short delay."""
        self._watching: set[asyncio.Future[None]] = set()

    def on_begin(self, begun: Callable[[str], None]) -> None:
        """Call ``begun`` with the id once the call has become a task; immediately, if it already has."""
        if self.first is None:
            begun(self.machine.id)
        else:
            self._begin.append(begun)

    def begun(self) -> None:
        """Notify the listeners that the call has become a task."""
        waiting, self._begin = self._begin, []
        for tell in waiting:
            tell(self.machine.id)

    def working(self, call: Call) -> Call:
        """``call`` with a progress token, without which the handler's progress would be dropped."""
        if self.first is not None or PROGRESS_TOKEN in call.meta:
            return call
        return replace(call, meta={PROGRESS_TOKEN: self.machine.id, **call.meta})

    def changed(self) -> asyncio.Future[None]:
        """A future that is done at the next change of the task."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watching.add(future)
        future.add_done_callback(self._watching.discard)
        return future

    def wake(self) -> None:
        for future in tuple(self._watching):
            if not future.done():
                future.set_result(None)

    def related(self, value: Any) -> Any:
        """``value``, a result or params, with the task's id in ``_meta`` where the design requires it."""
        if self.machine.design != "core":
            return value
        return replace(value, meta={**(value.meta or {}), **related_task_meta(self.machine.id)})

    def release(self, key: str) -> None:
        """The stream of an input request has closed: another stream may send it."""
        self.taken.discard(key)
        self.wake()


class Executor(Protocol):
    """Runs work that outlives its request."""

    def start(self, id: str, work: Work, *, limited: bool = True) -> None:
        """Start ``work`` soon; it reports its own end and raises nothing.

        Calls that only may become tasks are not ``limited`` here: the limit of requests applies to them. When one
        becomes a task, it needs a quota slot in the store.

        Raises:
            ProtocolError: of kind ``too_many_tasks``.
        """
        ...

    def cancel(self, id: str) -> None:
        """Cancel the work; ignore unknown or finished work."""
        ...

    async def close(self) -> None:
        """Cancel all work and wait for it, with a timeout."""
        ...


class InProcessExecutor:
    """At most ``limit`` running tasks, on the event loop of the caller."""

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
        # Work of a closed event loop has ended with it.
        loop = asyncio.get_running_loop()
        tasks = [task for task in self._running.values() if task.get_loop() is loop]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=TASK_CANCEL_SECONDS)
        self._running.clear()


def too_many(limit: int) -> ProtocolError:
    """The error when the limit of tasks is reached."""
    return ProtocolError(
        "too_many_tasks",
        f"this server has reached its limit of {limit} tasks: try again later",
        data={"limit": limit, "retryAfterMs": RETRY_AFTER_MS},
    )
