"""Tasks that start when other tasks have completed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from ...core.channel import Call
from ...core.task_machine import TaskMachine
from ...errors import ProtocolError
from .task_jobs import Job

Follow = Callable[[TaskMachine, Call], AbstractAsyncContextManager[Job | None]]
Load = Callable[[str | None, str], Awaitable[TaskMachine | None]]


class Dependencies:
    """Waits for tasks that run in this process or, through ``follow``, in another one."""

    def __init__(self, load: Load, running: Callable[[str], Job | None], follow: Follow) -> None:
        self._load = load
        self._running = running
        self._follow = follow

    async def wait(self, job: Job) -> None:
        """Return when all dependencies of the task have completed.

        Raises:
            ProtocolError: ``task_dependency_failed``.
        """
        for id in job.machine.depends_on:
            other = await self._over(job, id)
            if other is None or other.status != "completed" or other.is_error:
                about = {
                    "taskId": job.machine.public_id,
                    "dependsOn": id if other is None else other.public_id,
                }
                raise ProtocolError("task_dependency_failed", data=about)

    async def _over(self, job: Job, id: str) -> TaskMachine | None:
        task = await self._load(job.machine.principal, id)
        while task is not None and not task.ended:
            other = self._running(id)
            if other is not None:
                await other.changed()
                task = other.machine
            else:
                async with self._follow(task, job.call) as other:
                    if other is None:
                        break  # no process runs it any more
                    while not other.machine.ended:
                        await other.changed()
                task = other.machine
        return task
