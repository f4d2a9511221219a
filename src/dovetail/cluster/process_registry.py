"""Which processes with one store are alive, and which leases of tasks the dead ones held.

A process writes its passport to the store. Others of its machine can see in ``/proc`` that it has ended, and release
its leases at once. Elsewhere they wait until the passport expires.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..stores.base import split

if TYPE_CHECKING:
    from ..server.tasks.task_store import KeptTasks

LEASE_LIFETIME: Final = 10.0
"""How long a worker holds a lease without renewing it. It renews three times in that period."""
TASK_HEARTBEAT_INTERVAL: Final = LEASE_LIFETIME / 3
"""Interval of the heartbeats of running tasks, and of polling a task that runs in another worker."""


_FOLDER: Final = "task-holders"


def passport() -> bytes:
    """Who this process is, for the others of its machine and user."""
    return _passport(os.getpid())


@cache
def _passport(me: int) -> bytes:
    machine = _machine()
    try:
        return b"1" if machine is None else f"{machine} {me} {_begun(me)}".encode()
    except OSError:
        return b"1"


def ended(passport: bytes) -> bool:
    """Whether the process that wrote this has certainly ended."""
    machine, _, rest = passport.decode().partition(" ")
    pid, _, begun = rest.partition(" ")
    try:
        return bool(begun) and machine == _machine() and _begun(int(pid)) != begun
    except (FileNotFoundError, ProcessLookupError):
        return True  # no process of this number
    except OSError:
        return False  # we cannot look: this process may have too many files open


@cache
def _machine() -> str | None:
    """This start of the machine, its numbers of processes, and the user: others may see other processes.

    None where nobody can be seen: on other systems, or where ``/proc`` has the numbers of another namespace.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        found = f"{boot}/{os.readlink('/proc/self/ns/pid')}/{os.getuid()}"
        return found if os.readlink("/proc/self") == str(os.getpid()) else None
    except (OSError, AttributeError):
        return None


def _begun(pid: int) -> str:
    """When a process began; numbers are given again. One that nobody has asked for yet has ended all the same."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


class Holders:
    """The processes that hold leases of tasks."""

    def __init__(self, kept: KeptTasks) -> None:
        self._kept = kept

    async def sign(self, me: str) -> None:
        """Write the passport of this process, for longer than its leases last; ``me`` is their holder."""
        await self._kept.store.put(f"{_FOLDER}/{me}", passport(), ttl=3 * LEASE_LIFETIME)

    async def bury(self) -> bool:
        """Release the leases of ended processes; whether there were any."""
        store = self._kept.store
        signs = await store.scan(_FOLDER)
        dead = [split(key)[1] for key, sign in signs if ended(sign)]
        if dead:
            for _, key in await self._kept.unfinished():
                for holder in dead:
                    await store.lease(key, holder, 0)
        for holder in dead:
            await store.delete(f"{_FOLDER}/{holder}")  # last: whoever dies here leaves it to another
        return bool(dead)
