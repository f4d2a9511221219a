"""Which of many goes when there is one too many: never one of those who have little because of one who has much."""

from __future__ import annotations

from collections import Counter


class FairPlaces:
    """At most ``limit`` names, each of an owner. Of one too many the oldest goes of whoever has most.

    A share for each owner would leave several of them enough to push out the rest: here each of those who fill all
    pushes out the own first, and others lose something only once there are as many owners as places.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._owners: dict[str, str] = {}
        """By name, the one used longest ago first."""
        self._counts: Counter[str] = Counter()

    def take(self, name: str, owner: str) -> str | None:
        """``name`` is the newest from now on; the one that has to go, and is forgotten here, if one has to."""
        self.free(name)
        self._owners[name] = owner
        self._counts[owner] += 1
        if len(self._owners) <= self._limit:
            return None
        most = max(self._counts, key=self._counts.__getitem__)
        over = next(name for name, owner in self._owners.items() if owner == most)
        self.free(over)
        return over

    def free(self, name: str) -> None:
        owner = self._owners.pop(name, None)
        if owner is not None:
            self._counts[owner] -= 1
            if not self._counts[owner]:
                del self._counts[owner]
