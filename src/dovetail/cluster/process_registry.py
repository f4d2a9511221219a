"""Registry of live processes: detects dead processes and releases their task leases.

Each process writes its identity to the store. Processes on the same machine see in ``/proc`` that it has
ended and release its leases at once. Other machines wait until the entry expires.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..stores.base import split

if TYPE_CHECKING:
    from ..extensions.tasks.task_store import TaskStore

LEASE_LIFETIME: Final = 10.0
"""How long a worker holds a lease without renewing it. It renews three times in that period."""
TASK_HEARTBEAT_INTERVAL: Final = LEASE_LIFETIME / 3
"""Interval of the heartbeats of running tasks, and of polling a task that runs in another worker."""


_FOLDER: Final = "task-holders"


def process_identity() -> bytes:
    """Return the identity of this process for other processes of the same machine and user."""
    return _cached_identity(os.getpid())


@cache
def _cached_identity(me: int) -> bytes:
    machine = _boot_id()
    try:
        return b"1" if machine is None else f"{machine} {me} {_start_time(me)}".encode()
    except OSError:
        return b"1"


def has_ended(passport: bytes) -> bool:
    """Return whether the process with this identity has certainly ended."""
    machine, _, rest = passport.decode().partition(" ")
    pid, _, begun = rest.partition(" ")
    try:
        return bool(begun) and machine == _boot_id() and _start_time(int(pid)) != begun
    except (FileNotFoundError, ProcessLookupError):
        return True  # no process has this id
    except OSError:
        return False  # unknown: this process may have too many open files


@cache
def _boot_id() -> str | None:
    """Return an id of this boot, its process namespace and the user.

    None if processes cannot be observed: on other systems, or if ``/proc`` belongs to another namespace.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        found = f"{boot}/{os.readlink('/proc/self/ns/pid')}/{os.getuid()}"
        return found if os.readlink("/proc/self") == str(os.getpid()) else None
    except (OSError, AttributeError):
        return None


def _start_time(pid: int) -> str:
    """Return the start time of a process, because process ids are reused. An unreaped zombie has ended too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


class LeaseHolders:
    """The processes that hold task leases."""

    def __init__(self, kept: TaskStore) -> None:
        self._tasks = kept

    async def register(self, me: str) -> None:
        """Register this process as the lease owner ``me``. The entry outlives its leases."""
        await self._tasks.store.put(f"{_FOLDER}/{me}", process_identity(), ttl=3 * LEASE_LIFETIME)

    async def release_dead(self) -> bool:
        """Release the leases of dead processes. Return whether there were any."""
        store = self._tasks.store
        signs = await store.scan(_FOLDER)
        dead = [split(key)[1] for key, sign in signs if has_ended(sign)]
        if dead:
            for _, key in await self._tasks.unfinished():
                for holder in dead:
                    await store.lease(key, holder, 0)
        for holder in dead:
            # last, so that another process can continue if this one dies
            await store.delete(f"{_FOLDER}/{holder}")
        return bool(dead)
