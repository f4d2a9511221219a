"""`StoredResults`: eviction of stored call results and steps, by owner and in total.

Old results never block a new one: the oldest are evicted, first those of owners that exceed their share.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from ..stores.base import BoundedStore, Store

MAX_IDEMPOTENT_RESULTS_PER_PRINCIPAL: Final = 25_000
"""Stored results that one process keeps for one principal."""
MAX_IDEMPOTENT_BYTES_PER_PRINCIPAL: Final = 64 << 20
"""Size of the stored results that one process keeps for one principal."""
MAX_IDEMPOTENT_RESULTS: Final = 50_000
"""Stored results that one process keeps."""
MAX_IDEMPOTENT_BYTES: Final = 512 << 20
"""Size of the stored results that one process keeps."""
IDEMPOTENT_ENTRIES_DIVISOR: Final = 2
"""Stored results use at most this fraction (1/n) of a store's entries."""
IDEMPOTENT_BYTES_DIVISOR: Final = 16
"""Stored results use at most this fraction (1/n) of a store's bytes; several processes may share the store."""
ENTRY_OVERHEAD_BYTES: Final = 512
"""Estimated overhead of one stored entry."""


class _ResultIndex:
    """Result names and sizes, oldest first."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.size = 0

    def add(self, name: str, size: int) -> None:
        self.remove(name)
        self.names[name] = size
        self.size += size

    def remove(self, name: str) -> None:
        self.size -= self.names.pop(name, 0)

    def exceeds(self, entries: int, size: int) -> bool:
        return len(self.names) > entries or self.size > size


class StoredResults:
    """The results that this process has stored. They use a fixed share of the capacity of ``store``."""

    def __init__(self, store: Store) -> None:
        entries, size = MAX_IDEMPOTENT_RESULTS, MAX_IDEMPOTENT_BYTES
        if isinstance(store, BoundedStore):
            entries = min(entries, max(store.max_entries // IDEMPOTENT_ENTRIES_DIVISOR, 1))
            size = min(size, store.max_bytes // IDEMPOTENT_BYTES_DIVISOR)
        self._entries, self._bytes = entries, size
        self._own, self._own_bytes = (
            min(MAX_IDEMPOTENT_RESULTS_PER_PRINCIPAL, entries),
            min(MAX_IDEMPOTENT_BYTES_PER_PRINCIPAL, size),
        )
        self._all = _ResultIndex()
        self._owners: dict[str, _ResultIndex] = {}

    def fits(self, size: int) -> bool:
        """Return whether one result of ``size`` bytes fits into the share of its owner."""
        return size + ENTRY_OVERHEAD_BYTES <= self._own_bytes

    def add(self, name: str, size: int) -> list[str]:
        """Record a stored result. Return the names of evicted results, which the caller must delete.

        Names have the form ``kind/owner/…``.
        """
        owner = _owner(name)
        own = self._owners.setdefault(owner, _ResultIndex())
        own.add(name, size + ENTRY_OVERHEAD_BYTES)
        self._all.add(name, size + ENTRY_OVERHEAD_BYTES)
        gone: list[str] = []
        while own.exceeds(self._own, self._own_bytes):
            gone.append(self._forget(next(iter(own.names))))
        while self._all.exceeds(self._entries, self._bytes):
            oldest = next(iter(self._all.names))
            if self._exceeds_share(own):
                oldest = next(iter(own.names))
            gone.append(self._forget(oldest))
        return gone

    def _exceeds_share(self, own: _ResultIndex) -> bool:
        owners, everybody = len(self._owners), self._all
        return len(own.names) * owners > len(everybody.names) or own.size * owners > everybody.size

    def _forget(self, name: str) -> str:
        owner = _owner(name)
        self._all.remove(name)
        self._owners[owner].remove(name)
        if not self._owners[owner].names:
            del self._owners[owner]
        return name


_of: WeakKeyDictionary[Store, StoredResults] = WeakKeyDictionary()


def results_of(store: Store) -> StoredResults:
    """Return the result index of ``store``, shared by all servers of this process."""
    return _of.get(store) or _of.setdefault(store, StoredResults(store))


def _owner(name: str) -> str:
    return name.split("/")[1]
