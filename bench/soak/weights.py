"""What the processes of a soak weigh, window by window: each one, and all together."""

from __future__ import annotations

import os
from pathlib import Path

from ..processes import PAGE, Child, family

MIB = 2**20
STAYS = "stays-"
"""Marks the command of a stdio server whose client stays to the end, followed by the name of its lane."""


def resident(pid: int) -> float:
    """Resident MiB of one process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / MIB


def stayers() -> dict[str, int]:
    """The stdio servers that are there to the end, by name. Those that come and go have no time to grow."""
    found: dict[str, int] = {}
    for pid in family(os.getpid())[1:]:
        try:
            last = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").rpartition(b"\0")[2].decode()
        except OSError:
            continue  # it has just ended
        if last.startswith(STAYS):
            found[last.removeprefix(STAYS)] = pid
    return found


def weigh(servers: dict[str, Child]) -> dict[str, float]:
    """MiB of every lasting process."""
    weights = {f"{name} server": child.memory() / MIB for name, child in servers.items()}
    weights |= {f"{name} server": resident(pid) for name, pid in sorted(stayers().items())}
    return {**weights, "clients": resident(os.getpid())}


class Load:
    """How much of the machine was taken by us and by others."""

    def __init__(self, servers: dict[str, Child]) -> None:
        self._servers = servers
        self._busy, self._ours = _busy(), self._own()

    def cores(self, seconds: float) -> tuple[float, float]:
        """Cores in use on average since the beginning: ours, and those of others. Ask when all children have ended."""
        ours = (self._own() - self._ours) / seconds
        return ours, max(0.0, (_busy() - self._busy) / seconds - ours)

    def _own(self) -> float:
        return sum(os.times()[:4]) + sum(child.cpu() for child in self._servers.values())


def _busy() -> float:
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
