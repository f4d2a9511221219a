"""How many bytes of a kind one process may write to its store in a while: so many for each owner, and for all.

What is counted here is of use only for a while, so nobody is refused: what is beyond is kept shorter, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable

from ..stores.bounds import SHARE_GROUPS, SHARE_OVERHEAD


class Shares:
    """What one process has written since at most ``seconds``: ``own`` bytes of each owner, ``total`` of all."""

    def __init__(self, clock: Callable[[], float], *, seconds: float, own: int, total: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._most_own, self._most = own, total
        self._since = clock()
        self._all = 0
        self._own = [0] * SHARE_GROUPS
        """By the owner's place: a few share one, which costs them time and never safety."""

    def take(self, owner: str, size: int) -> bool:
        """Whether so many bytes more may stay for the whole time."""
        if abs(self._clock() - self._since) > self._seconds:
            self._since, self._all, self._own = self._clock(), 0, [0] * SHARE_GROUPS
        place, size = hash(owner) % SHARE_GROUPS, size + SHARE_OVERHEAD
        if self._all + size > self._most or self._own[place] + size > self._most_own:
            return False
        self._all += size
        self._own[place] += size
        return True
