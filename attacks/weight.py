"""How long something is fuzzed, and whether it grows meanwhile."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from .report import GotThrough

GROWTH = 32 << 20
"""Bytes a process may grow between the end of the first quarter, when it is warm, and the end."""
PATIENCE = 60.0
LOOK = 2.0
"""Seconds for one round, and between two looks whether they are over."""
T = TypeVar("T")
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident(pid: int) -> int:
    """Bytes of memory that a process has; none once it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def kept_waiting(pid: int) -> float:
    """Seconds that the unluckiest thread of a process was ready to run and others ran."""
    found = [0.0]
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError, IndexError):
                found.append(int(path.read_text().split()[1]) / 1e9)
    return max(found)


async def in_time(work: Awaitable[T], *pids: int) -> T:
    """What comes of ``work``, which these processes do.

    Raises:
        GotThrough: nothing does within our patience, which does not count while a busy machine lets none of them run.
    """
    task = asyncio.ensure_future(work)
    begun, before = time.monotonic(), sum(map(kept_waiting, pids))
    while not (await asyncio.wait({task}, timeout=LOOK))[0]:
        if time.monotonic() - begun - (sum(map(kept_waiting, pids)) - before) > PATIENCE:
            task.cancel()
            raise GotThrough("something hangs")
    return task.result()


class Weight:
    """Asked between two rounds whether the time is over; what is fuzzed is weighed then."""

    def __init__(self, memory: Callable[[], int], seconds: float) -> None:
        self._memory = memory
        self._begun = time.monotonic()
        self._seconds = seconds
        self._warm = self._grown = 0

    def over(self) -> bool:
        """Whether the time is over.

        Raises:
            GotThrough: it has grown since it was warm.
        """
        gone = time.monotonic() - self._begun
        if gone > self._seconds / 4:
            now = self._memory()
            self._warm = self._warm or now
            self._grown = now - self._warm
            if self._grown > GROWTH:
                raise GotThrough(f"grown by {self} in {gone:.0f} s")
        return gone >= self._seconds

    def __str__(self) -> str:
        return f"{self._grown / (1 << 20):+.1f} MiB after the first quarter"


def mine() -> int:
    """The memory of this process."""
    return resident(os.getpid())
