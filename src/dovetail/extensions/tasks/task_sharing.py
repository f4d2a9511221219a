"""`TaskSharing`: what other processes may do with the tasks of this one; `UnsharedTasks`: nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, ClassVar, Protocol

from msgspec import Raw

from ...core.channel import Call
from ...core.task_machine import TaskCaller, TaskMachine
from ...errors import DovetailError, StateError
from .task_channel import TaskSteps
from .task_jobs import Job

if TYPE_CHECKING:
    from .task_store import TaskStore


class TaskSharing(Protocol):
    """Shares the tasks of one server with other processes."""

    shared: ClassVar[bool]
    """Whether other processes read and run tasks of this server."""

    @property
    def has_workers(self) -> bool:
        """Whether new tasks run in dedicated worker processes."""
        ...

    def caller(self, call: Call) -> TaskCaller | None:
        """The data to rebuild ``call`` in another process; None if no other process may run it."""
        ...

    def steps(self, machine: TaskMachine) -> TaskSteps | None:
        """The stored steps of a task that may run again; None without them."""
        ...

    def may_run_again(self, machine: TaskMachine) -> bool:
        """Whether another process may run the task from its start."""
        ...

    async def acquire(self, job: Job) -> None:
        """Acquire the lease of a task that starts in this process."""
        ...

    async def dispatch(self, job: Job) -> None:
        """Dispatch a new task to the workers."""
        ...

    async def release(self, job: Job) -> None:
        """Release the lease of a task."""
        ...

    async def publish_change(self, id: str) -> None:
        """Notify processes that wait for this task."""
        ...

    async def cancel(self, task: TaskMachine, reason: str | None) -> None:
        """Cancel a task that does not run in this process, and store its state."""
        ...

    async def answer(self, task: TaskMachine, responses: Mapping[str, Raw], call: Call) -> None:
        """Send input responses to the process that runs ``task``."""
        ...

    async def refuse_answer(self, job: Job, key: str, error: DovetailError) -> None:
        """Send a rejected input request to the process that runs the task."""
        ...

    def follow(self, task: TaskMachine, call: Call) -> AbstractAsyncContextManager[Job | None]:
        """Yield a job that mirrors a task of another process; None if no process runs it."""
        ...

    async def heartbeat(self) -> None:
        """Renew leases and recover tasks of dead workers, until cancelled."""
        ...

    async def stop_heartbeat(self) -> None:
        """Stop the heartbeat: no further tasks are recovered."""
        ...

    async def serve(self, max_concurrent: int) -> None:
        """Run dispatched tasks as a worker, until cancelled."""
        ...

    async def close(self) -> None:
        """End what runs for other processes."""
        ...


class UnsharedTasks:
    """The tasks of a server without a store: they run in this process and end with it."""

    shared: ClassVar[bool] = False

    def __init__(self, kept: TaskStore) -> None:
        self._kept = kept

    @property
    def has_workers(self) -> bool:
        return False

    def caller(self, call: Call) -> None:
        return None

    def steps(self, machine: TaskMachine) -> None:
        return None

    def may_run_again(self, machine: TaskMachine) -> bool:
        return False

    async def acquire(self, job: Job) -> None:
        """No other process competes for the task."""

    async def dispatch(self, job: Job) -> None:
        """There are no workers."""

    async def release(self, job: Job) -> None:
        """No other process waits for the task."""

    async def publish_change(self, id: str) -> None:
        """No other process waits for the task."""

    async def cancel(self, task: TaskMachine, reason: str | None) -> None:
        await self._kept.put(task)

    async def answer(self, task: TaskMachine, responses: Mapping[str, Raw], call: Call) -> None:
        """No handler waits for the responses any more."""

    async def refuse_answer(self, job: Job, key: str, error: DovetailError) -> None:
        """No handler waits for the response any more."""

    @asynccontextmanager
    async def follow(self, task: TaskMachine, call: Call) -> AsyncGenerator[None]:
        yield None

    async def heartbeat(self) -> None:
        """There are no leases to renew."""

    async def stop_heartbeat(self) -> None:
        """A server without a store runs no heartbeat."""

    async def serve(self, max_concurrent: int) -> None:
        raise StateError("a worker needs a store that it shares with the server")

    async def close(self) -> None:
        """Nothing runs for other processes."""
