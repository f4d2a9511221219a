"""The index of the tasks of each principal: their number, their size and the client's names for them.

Each task occupies one quota slot of its principal (`stores/quotas.py`). The client's own name for a task is stored next
to the slots.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple
from urllib.parse import quote

from ...core.task_machine import TaskMachine
from ...errors import ProtocolError
from ...stores.base import Store, StoreFull
from ...stores.quotas import BYTES_PER_SLOT, SLOT_LIFETIME, Quota, acquire_slot, release

MAX_TASK_SLOTS_PER_PRINCIPAL: Final = 2000
"""Quota slots for the large tasks of one principal."""
MAX_ANONYMOUS_TASK_SLOTS: Final = 10_000
"""Quota slots for the large tasks of all clients without a principal."""
MAX_TASK_SLOTS: Final = 20_000
"""Quota slots for all large tasks."""


_LABEL: Final = re.compile(r"[!-~]{1,128}")
GENERATED: Final = re.compile(r"[0-9a-f]{43}")
"""Ids that Dovetail generated."""


class Ended(NamedTuple):
    """The data of a finished task that is needed to delete it."""

    principal: str | None
    id: str
    quota_key: str | None
    label: str | None
    byte_quota_keys: tuple[str, ...] = ()


class TaskQuotaFull(StoreFull):
    """The tasks of one owner use all the bytes that it may store."""


class OwnerIndex:
    """The quota slots and names of all principals."""

    def __init__(self, store: Store, maximum: int) -> None:
        self._store = store
        self._maximum = maximum

    async def acquire_slot(self, machine: TaskMachine) -> bool:
        """Count the task for its principal; False if the principal has reached its limit."""
        folder, ttl = f"task-place/{owner(machine.principal)}", _ttl(machine)
        machine.quota_key = await acquire_slot(self._store, folder, self._maximum, machine.id.encode(), ttl)
        return machine.quota_key is not None

    async def weigh(self, machine: TaskMachine, size: int) -> None:
        """Count the bytes of a large task.

        Raises:
            TaskQuotaFull: the quota of its owner, or of the server, is used up.
        """
        if size <= BYTES_PER_SLOT or len(machine.byte_quota_keys) >= 2 * (1 + size // BYTES_PER_SLOT):
            return
        own = MAX_ANONYMOUS_TASK_SLOTS if machine.principal is None else MAX_TASK_SLOTS_PER_PRINCIPAL
        places = Quota(self._store, "task", own=own, total=MAX_TASK_SLOTS)
        ttl = min(_ttl(machine) or SLOT_LIFETIME, SLOT_LIFETIME)
        try:
            machine.byte_quota_keys = await places.resize(
                owner(machine.principal), machine.byte_quota_keys, ttl, size
            )
        except StoreFull as error:
            raise TaskQuotaFull from error

    async def name(self, machine: TaskMachine, label: str) -> None:
        """Register ``label`` as the principal's name for the task.

        Raises:
            ProtocolError: ``task_already_exists``.
        """
        if not await self._put(_name(machine.principal, label), machine):
            raise exists(label)

    async def find(self, principal: str, label: str) -> str | None:
        """The id of the task that ``principal`` named ``label``."""
        found = await self._store.get(_name(principal, label)) if _LABEL.fullmatch(label) else None
        return None if found is None else found.decode()

    async def drop(self, task: TaskMachine | Ended) -> None:
        """Remove a task that was deleted, or could not be created."""
        if task.quota_key is not None:
            await self._store.delete(task.quota_key)
        if task.label is not None and task.principal is not None:
            await self._store.delete(_name(task.principal, task.label))
        await release(self._store, task.byte_quota_keys)

    async def _put(self, key: str, machine: TaskMachine) -> bool:
        return await self._store.put(key, machine.id.encode(), ttl=_ttl(machine), only_new=True)


def _ttl(machine: TaskMachine) -> float | None:
    return None if machine.ttl is None else machine.ttl / 1000


def checked(label: str) -> str:
    """Check a client's name for a task.

    Raises:
        ProtocolError: ``invalid_params``.
    """
    if not _LABEL.fullmatch(label) or GENERATED.fullmatch(label):
        raise ProtocolError("invalid_params", "a client's own taskId has 1 to 128 visible ASCII characters")
    return label


def exists(label: str) -> ProtocolError:
    return ProtocolError("task_already_exists", data={"taskId": label})


def owner(principal: str | None) -> str:
    """The key prefix of a principal."""
    return "-" if principal is None else hashlib.sha256(principal.encode()).hexdigest()[:32]


def _name(principal: str | None, label: str) -> str:
    return f"task-name/{owner(principal)}/{quote(label, safe='')}"
