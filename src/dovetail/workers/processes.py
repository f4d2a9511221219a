"""Whether a process that gave a sign of life has ended since, where that can be seen: on its own machine.

Elsewhere, and where there is no ``/proc``, one has to wait until its sign of life runs out.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path


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
