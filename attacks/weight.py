"""How long something is fuzzed, and whether it grows meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from .report import GotThrough

GROWTH = 32 << 20
"""Bytes a process may grow between the end of the first quarter, when it is warm, and the end."""
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident(pid: int) -> int:
    """Bytes of memory that a process has; none once it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


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
