"""Times counted in buckets: as large after an hour as after a second."""

from __future__ import annotations

import math
from array import array

STEP = 1.02
"""How much longer each bucket is than the one before: the error of a quantile is at most 2 %."""
FIRST = 1e-5
LAST = 100.0
_SCALE = 1 / math.log(STEP)
_BUCKETS = math.ceil(math.log(LAST / FIRST) * _SCALE) + 1


class Histogram:
    """How long things took, in seconds."""

    def __init__(self) -> None:
        self._counts = array("I", bytes(4 * _BUCKETS))
        self.count = 0
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bucket(seconds)] += 1
        self.count += 1
        self.total += seconds

    def quantile(self, share: float) -> float:
        """The time within which this share of them was done; 0 when there were none."""
        wanted, seen = share * self.count, 0
        if not self.count:
            return 0.0
        for number, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                return FIRST * STEP ** (number + 0.5)
        return LAST

    def clear(self) -> None:
        for number, count in enumerate(self._counts):
            if count:
                self._counts[number] = 0
        self.count, self.total = 0, 0.0


def bucket(seconds: float) -> int:
    if seconds <= FIRST:
        return 0
    return min(_BUCKETS - 1, int(math.log(seconds / FIRST) * _SCALE))
