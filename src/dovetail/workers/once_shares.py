"""How much of the store the results of keyed calls may take: so much for each principal, and for all together.

Whoever makes more such calls than that still has each done once: what is kept of them is kept for a shorter while.
"""

from __future__ import annotations

from collections.abc import Callable

from ..stores.bounds import ONCE_ALL_BYTES, ONCE_BYTES, ONCE_OVERHEAD, ONCE_SECONDS, ONCE_SHARES


class Shares:
    """What one process has kept since ``ONCE_SECONDS`` at most."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = clock()
        self._all = 0
        self._own = [0] * ONCE_SHARES
        """By the principal's place: a few share one, which costs them time and never safety."""

    def take(self, owner: str, size: int) -> bool:
        """Whether a result of so many bytes may stay for the whole time."""
        if abs(self._clock() - self._since) > ONCE_SECONDS:
            self._since, self._all, self._own = self._clock(), 0, [0] * ONCE_SHARES
        place, size = hash(owner) % ONCE_SHARES, size + ONCE_OVERHEAD
        if self._all + size > ONCE_ALL_BYTES or self._own[place] + size > ONCE_BYTES:
            return False
        self._all += size
        self._own[place] += size
        return True
