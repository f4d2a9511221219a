"""The tasks in the store. Access is decided by the key of a task, which contains its principal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.task_machine import TaskDesign, TaskMachine
from ...stores.base import Store, split
from ...stores.versioned_records import VersionedRecords
from .owner_index import Ended, OwnerIndex, owner

if TYPE_CHECKING:
    from ...server.dispatcher import Dispatcher

TASK_GRACE_PERIOD: Final = 60.0
"""Seconds after its time to live for which a task is listed as unfinished."""

LEGACY: Final[frozenset[TaskDesign]] = frozenset({"core", "erlmcp"})
MODERN: Final[frozenset[TaskDesign]] = frozenset({"extension", "erlmcp"})
"""The task designs that legacy and modern clients can see."""
WORK: Final = "work"
"""The key prefix of the index of unfinished tasks."""

_records = VersionedRecords(TaskMachine)


class TaskStore:
    """The stored tasks of one server; with a shared store, those of all its processes."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        limit = dispatcher.limits.max_tasks
        given = dispatcher.lifecycle.store
        self.store = _memory(dispatcher, limit) if given is None else given
        self._counts_bytes = given is not None  # a store in memory has its own limit
        self._clock = dispatcher.clock
        # Without a store they are stored separately: the limit of tasks must count tasks only.
        beside = _memory(dispatcher, 2 * limit) if given is None else given
        self.owned = OwnerIndex(beside, limit)

    async def put(self, machine: TaskMachine, fence: int | None = None) -> bool:
        """Store the current state of the task; False if another worker has the lease, by its number ``fence``.

        Raises:
            StoreFull: the store is full; `TaskQuotaFull` if the quota of its owner is used up.
        """
        expires = machine.expires
        ttl = None if expires is None else expires - self._clock()
        if ttl is not None and ttl <= 0:
            return True
        data, counted = _records.encode(machine), machine.byte_quota_keys
        if self._counts_bytes:
            await self.owned.weigh(machine, len(data))
            data = data if machine.byte_quota_keys is counted else _records.encode(machine)
        return await self.store.put(key_of(machine), data, ttl=ttl, fence=fence)

    async def load(self, principal: str | None, id: str) -> TaskMachine | None:
        """The task ``id`` of ``principal``, if it exists and has not expired."""
        return None if "/" in id else await self.read(f"{_folder(principal)}/{id}")

    async def read(self, key: str) -> TaskMachine | None:
        data = await self.store.get(key)
        machine = None if data is None else _records.decode(data)
        return None if machine is None or machine.expired(self._clock()) else machine

    async def delete(self, task: Ended) -> None:
        """Delete a finished task."""
        await self.store.delete(f"{_folder(task.principal)}/{task.id}")
        await self.owned.drop(task)

    async def forget(self, machine: TaskMachine) -> None:
        await self.store.delete(key_of(machine))
        await self.store.delete(f"{WORK}/{machine.id}")
        await self.owned.drop(machine)

    async def scan(self, principal: str, after: str, size: int) -> list[TaskMachine]:
        """Tasks of ``principal`` that a legacy client may see, in the order of their creation."""
        folder = _folder(principal)
        found: list[TaskMachine] = []
        at = f"{folder}/{after}"
        while len(found) < size and (entries := await self.store.scan(folder, after=at, limit=size)):
            at = entries[-1][0]
            found += [task for _, value in entries if (task := _records.decode(value)).design in LEGACY]
        return found[:size]

    # --- the index of unfinished tasks --------------------------------------------------------------------------

    async def note_work(self, machine: TaskMachine) -> None:
        """Add the task to the index of unfinished tasks, which survives the death of a worker."""
        ttl = None if machine.ttl is None else machine.ttl / 1000 + TASK_GRACE_PERIOD
        await self.store.put(f"{WORK}/{machine.id}", key_of(machine).encode(), ttl=ttl)

    async def work_key(self, id: str) -> str | None:
        """The key of an unfinished task; None if it has finished or does not exist."""
        found = await self.store.get(f"{WORK}/{id}")
        return None if found is None else found.decode()

    async def end_work(self, id: str) -> None:
        await self.store.delete(f"{WORK}/{id}")

    async def unfinished(self) -> list[tuple[str, str]]:
        """The ids and keys of all unfinished tasks."""
        found: list[tuple[str, str]] = []
        at = ""
        while entries := await self.store.scan(WORK, after=at):
            at = entries[-1][0]
            found += [(split(key)[1], value.decode()) for key, value in entries]
        return found


def key_of(machine: TaskMachine) -> str:
    """The key of a task."""
    return f"{_folder(machine.principal)}/{machine.id}"


def _folder(principal: str | None) -> str:
    return f"task/{owner(principal)}"


def _memory(dispatcher: Dispatcher, entries: int) -> Store:
    from ...stores.memory_store import MemoryStore  # an import at module level would be circular

    return MemoryStore(entries, clock=dispatcher.clock)
