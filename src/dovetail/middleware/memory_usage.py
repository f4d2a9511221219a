"""How much of its memory a process, or its control group, uses."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from typing import Final

from msgspec import Struct

_V1: Final = "/sys/fs/cgroup/memory"
_V2: Final = "/sys/fs/cgroup"
_UNLIMITED: Final = 1 << 60


class Memory(Struct, frozen=True):
    """How much memory there may be, and where it is told how much there is."""

    limit: int
    group: str | None = None
    """The folder of the control group that is limited; None for this process alone."""

    def used(self) -> float:
        """The part of the limit that is used; 0 where nobody tells."""
        try:
            return (_resident() if self.group is None else _working_set(self.group)) / self.limit
        except (OSError, ValueError, IndexError):
            return 0.0


def memory(limit: int | None) -> Memory | None:
    """What is limited: this process to ``limit`` bytes, or else its control group, if that is."""
    if limit is not None:
        return Memory(limit)
    try:
        lines = _text("/proc/self/cgroup").splitlines()
    except OSError:
        return None
    for line in lines:
        _, names, path = line.split(":", 2)
        root = _V2 if not names else _V1 if "memory" in names.split(",") else None
        # In a container the path is often that of the host, and the group is the root.
        for folder in () if root is None else (f"{root}{path}", root):
            found = _limit(f"{folder}/{'memory.max' if root is _V2 else 'memory.limit_in_bytes'}")
            if found is not None:
                return Memory(found, folder)
    return None


def release() -> None:
    """Give back what is held but not used: circles, and pages that the allocator keeps for later."""
    import ctypes  # seldom needed, and slow to load

    gc.collect()
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def _text(file: str) -> str:
    with open(file) as lines:
        return lines.read()


def _limit(file: str) -> int | None:
    try:
        limit = int(_text(file))
    except (OSError, ValueError):  # none, or "max"
        return None
    return limit if limit < _UNLIMITED else None


def _resident() -> int:
    return int(_text("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _working_set(group: str) -> int:
    """What the kernel cannot take back by forgetting files that nobody has used lately."""
    second = os.path.exists(f"{group}/memory.current")
    total = int(_text(f"{group}/{'memory.current' if second else 'memory.usage_in_bytes'}"))
    name = "inactive_file " if second else "total_inactive_file "
    lines = _text(f"{group}/memory.stat").splitlines()
    return total - sum(int(line.split()[1]) for line in lines if line.startswith(name))
