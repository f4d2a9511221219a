"""Which results of calls, and of their steps, one process keeps in its store: the newest of each owner and of all.

Nobody is refused because of results that others left behind: whatever is over gives way, oldest first, of whoever has
more than their part before anybody else's.
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


class _Kept:
    """Names and what each of them takes, oldest first."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.size = 0

    def add(self, name: str, size: int) -> None:
        self.remove(name)
        self.names[name] = size
        self.size += size

    def remove(self, name: str) -> None:
        self.size -= self.names.pop(name, 0)

    def over(self, entries: int, size: int) -> bool:
        return len(self.names) > entries or self.size > size


class Results:
    """The results of one process in ``store``, of which they take a part and no more."""

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
        self._all = _Kept()
        self._owners: dict[str, _Kept] = {}

    def fits(self, size: int) -> bool:
        """Whether one result of so many bytes is within what its owner has."""
        return size + ENTRY_OVERHEAD_BYTES <= self._own_bytes

    def add(self, name: str, size: int) -> list[str]:
        """Note that a result was kept; those that give way to it are returned, and are to be deleted.

        Names are ``kind/owner/…``.
        """
        owner = _owner(name)
        own = self._owners.setdefault(owner, _Kept())
        own.add(name, size + ENTRY_OVERHEAD_BYTES)
        self._all.add(name, size + ENTRY_OVERHEAD_BYTES)
        gone: list[str] = []
        while own.over(self._own, self._own_bytes):
            gone.append(self._forget(next(iter(own.names))))
        while self._all.over(self._entries, self._bytes):
            oldest = next(iter(self._all.names))
            if self._more_than_their_part(own):
                oldest = next(iter(own.names))
            gone.append(self._forget(oldest))
        return gone

    def _more_than_their_part(self, own: _Kept) -> bool:
        owners, everybody = len(self._owners), self._all
        return len(own.names) * owners > len(everybody.names) or own.size * owners > everybody.size

    def _forget(self, name: str) -> str:
        owner = _owner(name)
        self._all.remove(name)
        self._owners[owner].remove(name)
        if not self._owners[owner].names:
            del self._owners[owner]
        return name


_of: WeakKeyDictionary[Store, Results] = WeakKeyDictionary()


def results_of(store: Store) -> Results:
    """What this process keeps in ``store``, whichever of its servers and calls asks."""
    return _of.get(store) or _of.setdefault(store, Results(store))


def _owner(name: str) -> str:
    return name.split("/")[1]
