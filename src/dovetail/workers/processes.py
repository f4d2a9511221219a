"""Whether a process that gave a sign of life has ended since, where that can be seen: on its own machine.

Elsewhere, and where there is no ``/proc``, one has to wait until its sign of life runs out.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path


def passport() -> bytes:
    """Who this process is, for the others of its machine and user."""
    try:
        return f"{_machine()} {os.getpid()} {_begun(os.getpid())}".encode()
    except (OSError, AttributeError):
        return b"1"


def ended(passport: bytes) -> bool:
    """Whether the process that wrote this has certainly ended."""
    machine, _, rest = passport.decode().partition(" ")
    pid, _, begun = rest.partition(" ")
    try:
        return bool(begun) and machine == _machine() and _begun(int(pid)) != begun
    except OSError:
        return True  # no process of this number


@cache
def _machine() -> str:
    """This start of the machine, its numbers of processes, and the user: others may see other processes."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{os.readlink('/proc/self/ns/pid')}/{os.getuid()}"


def _begun(pid: int) -> str:
    """When a process began; numbers are given again. One that nobody has asked for yet has ended all the same."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]
