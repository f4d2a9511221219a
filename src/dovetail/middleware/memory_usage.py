"""Memory usage of a process or its control group, relative to its limit."""

from __future__ import annotations

import os
from typing import Final

from msgspec import Struct

_V1: Final = "/sys/fs/cgroup/memory"
_V2: Final = "/sys/fs/cgroup"
_UNLIMITED: Final = 1 << 60


class Memory(Struct, frozen=True):
    """A memory limit and the source of the current usage."""

    limit: int
    group: str | None = None
    """The folder of the limited control group; None for this process."""

    def used(self) -> float:
        """Return the used fraction of the limit; 0 if it is unknown."""
        try:
            return (_resident() if self.group is None else _working_set(self.group)) / self.limit
        except (OSError, ValueError, IndexError):
            return 0.0


def memory(limit: int | None) -> Memory | None:
    """Return the limit that applies: ``limit`` bytes for this process, else the limit of its control group."""
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


def _text(file: str) -> str:
    with open(file) as lines:
        return lines.read()


def _limit(file: str) -> int | None:
    try:
        limit = int(_text(file))
    except (OSError, ValueError):  # no limit, or "max"
        return None
    return limit if limit < _UNLIMITED else None


def _resident() -> int:
    return int(_text("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _working_set(group: str) -> int:
    """Return the used memory without the file cache that the kernel can reclaim."""
    second = os.path.exists(f"{group}/memory.current")
    total = int(_text(f"{group}/{'memory.current' if second else 'memory.usage_in_bytes'}"))
    name = "inactive_file " if second else "total_inactive_file "
    lines = _text(f"{group}/memory.stat").splitlines()
    return total - sum(int(line.split()[1]) for line in lines if line.startswith(name))
