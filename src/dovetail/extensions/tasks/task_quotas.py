"""Quotas and names of tasks by owner, and which finished tasks are deleted for new ones.

The owner of a task is its principal or, without one, its session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ...core.channel import Call, Session
from ...core.task_machine import TaskMachine
from ...errors import ProtocolError
from ...stores.base import StoreFull
from .owner_index import Ended, TaskQuotaFull, exists
from .task_jobs import Job, too_many
from .task_store import TaskStore

if TYPE_CHECKING:
    from ...server.dispatcher import Dispatcher


class EndedTasks:
    """Finished tasks in the order of their end. They are deleted when new tasks need their slots."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ended: dict[str, Ended] = {}

    def add(self, task: TaskMachine) -> None:
        self._ended[task.id] = Ended(
            task.principal, task.id, task.quota_key, task.label, task.byte_quota_keys
        )
        if len(self._ended) > self._limit:
            del self._ended[next(iter(self._ended))]

    def take(self, job: Job | None) -> Ended | None:
        """Remove and return the oldest: among those with the owner of ``job``, or among all."""
        session = None if job is None else job.call.session
        mine: dict[str, Any] = {} if session is None or session.tasks is None else session.tasks
        for id, ended in self._ended.items():
            principal = None if job is None else job.machine.principal
            if job is None or (id in mine if principal is None else ended.principal == principal):
                del self._ended[id]
                mine.pop(id, None)
                return ended
        return None


class TaskQuotas:
    """The owners of the tasks of one server."""

    def __init__(self, dispatcher: Dispatcher, kept: TaskStore) -> None:
        self._kept = kept
        self._clock = dispatcher.clock
        self._limit = dispatcher.limits.max_tasks
        self.ended = EndedTasks(self._limit)

    async def admit(self, job: Job, save: Callable[[], Awaitable[None]]) -> None:
        """Name, count and ``save`` a new task.

        Raises:
            ProtocolError: ``task_already_exists`` or ``too_many_tasks``.
        """
        await self._name(job)
        await self._make_room(job, save)

    async def _name(self, job: Job) -> None:
        """Register the client's name of the task for its principal or, without one, for its session."""
        machine, session = job.machine, job.call.session
        # Until the name is registered, a failure must not remove the same name of another task.
        label, machine.label = machine.label, None
        if label is None:
            return
        if machine.principal is not None:
            await self._kept.owned.name(machine, label)
        elif session is None:
            raise ProtocolError(
                "invalid_params", "a client can choose the taskId only with a session or a principal"
            )
        elif self._labelled(session, label) is not None:
            raise exists(label)
        machine.label = label

    def _labelled(self, session: Session | None, label: str) -> str | None:
        """The id of the task that a session without a principal named ``label``."""
        mine = self.living(session)
        return next((id for id, (_, name) in mine.items() if name == label), None)

    def living(self, session: Session | None) -> dict[str, tuple[float | None, str | None]]:
        """The tasks of a session, without deleted ones."""
        if session is None or session.tasks is None:
            return {}
        now = self._clock()
        for id, (expires, _) in tuple(session.tasks.items()):
            if expires is not None and expires <= now:
                del session.tasks[id]
        return session.tasks

    async def _make_room(self, job: Job, save: Callable[[], Awaitable[None]]) -> None:
        """If no slot is free, delete a finished task."""
        limit = self._limit
        while not await self._has_place(job):
            if (old := self.ended.take(job)) is None:
                raise too_many(limit)
            await self._kept.delete(old)
        while True:
            try:
                return await save()
            except StoreFull as error:
                old = self.ended.take(job)
                if old is None and not isinstance(error, TaskQuotaFull):
                    old = self.ended.take(None)
                if old is None:
                    raise too_many(limit) from None
                await self._kept.delete(old)

    async def _has_place(self, job: Job) -> bool:
        """Whether the owner of ``job``, a principal or a session, can store one more task."""
        if job.machine.principal is not None:
            return await self._kept.owned.acquire_slot(job.machine)
        session = job.call.session
        count = 0 if session is None or session.tasks is None else len(session.tasks)
        return count < self._limit or len(self.living(session)) < self._limit

    async def called(self, call: Call, label: str) -> str | None:
        """The id of the task that the caller named ``label``."""
        if call.principal is None:
            return self._labelled(call.session, label)
        return await self._kept.owned.find(call.principal.key, label)
