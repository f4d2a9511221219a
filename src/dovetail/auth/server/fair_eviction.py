"""Fair eviction: when a table is full, the owner with most entries loses its oldest one."""

from __future__ import annotations

from collections import Counter


class FairEviction:
    """At most ``limit`` names with owners. Beyond that, the owner with most names loses its oldest.

    With a fixed share per owner, several owners together could evict all others. Here each owner first evicts
    its own names; others lose one only if there are as many owners as entries.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._owners: dict[str, str] = {}
        """By name, least recently used first."""
        self._counts: Counter[str] = Counter()

    def take(self, name: str, owner: str) -> str | None:
        """Make ``name`` the newest. Return the evicted name, if any."""
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
