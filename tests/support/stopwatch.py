"""How long something took, less the time in which others had the cores.

A limit in seconds is a promise about us, not about the machine the tests run on. Linux counts for each process how long
it stood ready and was not let run; with it, a time limit can be tested on a busy machine.
"""

import os
import time
from pathlib import Path


def unserved(pid: int) -> float:
    """Seconds for which the main thread of a process has been ready and without a core since it began."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0  # over, or no Linux


class Stopwatch:
    """Seconds since it was made, less those in which we, or one of ``others``, waited for a core."""

    def __init__(self, *others: int) -> None:
        self._waited = {pid: unserved(pid) for pid in (os.getpid(), *others)}
        self._before = sum(self._waited.values())
        self._begun = time.monotonic()

    def read(self) -> float:
        """Of a process that has ended, what was seen at the last look counts."""
        passed = time.monotonic() - self._begun
        for pid, before in self._waited.items():
            self._waited[pid] = max(before, unserved(pid))
        return passed - (sum(self._waited.values()) - self._before)
