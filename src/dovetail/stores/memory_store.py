"""`MemoryStore`: a store in the memory of this process. Its content is lost when the process ends.

Expired entries are removed on access, or when space is needed. A heap orders entries by expiry, so freeing
space needs no search. The number of keys and the total size of their values are limited.
"""

from __future__ import annotations

import bisect
import heapq
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from ..settings import check_kinds
from ..settings.parameter_kinds import CLOCK, WHOLE
from .base import SCAN_PAGE, MessageCallback, StoreFull, entry_name, split
from .topic_listeners import TopicListeners

MEMORY_STORE_ENTRIES: Final = 10_000
MEMORY_STORE_BYTES: Final = 256 << 20
"""Default limits of a `MemoryStore`: the number of keys, and the bytes of their values."""


class _MemoryEntry(NamedTuple):
    value: bytes
    expires: float | None


class _Lease(NamedTuple):
    owner: str
    expires: float
    number: int


class MemoryStore:
    """A store in the memory of this process."""

    def __init__(
        self,
        max_entries: int = MEMORY_STORE_ENTRIES,
        max_bytes: int = MEMORY_STORE_BYTES,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set the size of the store.

        Args:
            max_entries: Keys in the store; a further key is refused.
            max_bytes: Bytes of all values in the store; further bytes are refused.
        """
        check_kinds(
            {
                "max_entries": WHOLE,
                "max_bytes": WHOLE,
                "clock": CLOCK,
            },
            locals(),
        )
        self.max_entries = max_entries
        self.max_bytes = max_bytes
        self._clock = clock
        self._entries: dict[str, _MemoryEntry] = {}
        self._folders: dict[str, list[str]] = {}  # folder: sorted names, for scan
        self._size = 0
        # a heap; may contain keys that were overwritten or deleted
        self._expiring: list[tuple[float, str]] = []
        self._leases: dict[str, _Lease] = {}
        self._last_number = 0
        self._listeners = TopicListeners()

    def __len__(self) -> int:
        self._expire()
        return len(self._entries)

    async def open(self) -> None:
        pass

    async def get(self, key: str) -> bytes | None:
        entry = self._live(key)
        return None if entry is None else entry.value

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        ttl: float | None = None,
        only_new: bool = False,
        expect: bytes | None = None,
        fence: int | None = None,
    ) -> bool:
        old = self._live(key)
        if (only_new and old is not None) or (expect is not None and (old is None or old.value != expect)):
            return False
        if fence is not None and self._fence(key) != fence:
            return False
        self._set(key, value, ttl, old)
        return True

    def _set(self, key: str, value: bytes, ttl: float | None, old: _MemoryEntry | None) -> None:
        self._make_room(key, len(value) - (0 if old is None else len(old.value)))
        expires = None if ttl is None else self._clock() + ttl
        if old is None:
            folder, name = split(key)
            bisect.insort(self._folders.setdefault(folder, []), name)
        else:
            self._size -= len(old.value)
        self._entries[key] = _MemoryEntry(value, expires)
        self._size += len(value)
        if expires is not None:
            self._note_expiry(expires, key)

    async def delete(self, key: str) -> bool:
        found = self._live(key) is not None
        if found:
            self._drop(key)
        return found

    async def append(self, folder: str, value: bytes, *, keep: int, ttl: float | None = None) -> str:
        names = self._folders.get(folder)
        # An empty log continues at the current time: a new number must exceed those already read.
        number = int(names[-1]) if names else int(self._clock() * 1000)
        key = f"{folder}/{entry_name(number + 1)}"
        self._set(key, value, ttl, None)
        for name in self._folders[folder][:-keep]:
            self._drop(f"{folder}/{name}")
        return key

    async def scan(self, folder: str, *, after: str = "", limit: int = SCAN_PAGE) -> list[tuple[str, bytes]]:
        self._expire()
        names = self._folders.get(folder, [])
        start = bisect.bisect_right(names, split(after)[1])
        keys = [f"{folder}/{name}" if folder else name for name in names[start : start + limit]]
        return [(key, self._entries[key].value) for key in keys]

    async def lease(self, key: str, owner: str, ttl: float) -> int:
        now = self._clock()
        held = self._leases.get(key)
        if held is not None and held.owner != owner and held.expires > now:
            return 0
        if ttl <= 0:
            self._leases.pop(key, None)
            return 1
        if held is None and len(self._leases) >= self.max_entries:
            self._leases = {name: lease for name, lease in self._leases.items() if lease.expires > now}
            if len(self._leases) >= self.max_entries:
                raise StoreFull(self.max_entries, "leases")
        if held is None or held.owner != owner or held.expires <= now:
            self._last_number = max(self._last_number + 1, round(now * 1_000_000))
            number = self._last_number
        else:
            number = held.number
        self._leases[key] = _Lease(owner, now + ttl, number)
        return number

    def _fence(self, key: str) -> int:
        held = self._leases.get(key)
        return 0 if held is None or held.expires <= self._clock() else held.number

    async def publish(self, topic: str, message: bytes) -> None:
        self._listeners.notify(topic, message)

    def subscribe(self, topic: str, take: MessageCallback) -> Callable[[], None]:
        return self._listeners.add(topic, take)

    async def close(self) -> None:
        """Do nothing: nothing was opened. The entries stay."""

    # --- expiry and space ----------------------------------------------------------------------------------

    def _live(self, key: str) -> _MemoryEntry | None:
        entry = self._entries.get(key)
        if entry is not None and entry.expires is not None and entry.expires <= self._clock():
            self._drop(key)
            return None
        return entry

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key)
        self._size -= len(entry.value)
        folder, name = split(key)
        names = self._folders[folder]
        del names[bisect.bisect_left(names, name)]
        if not names:
            del self._folders[folder]

    def _note_expiry(self, expires: float, key: str) -> None:
        heapq.heappush(self._expiring, (expires, key))
        if len(self._expiring) > 2 * len(self._entries) + 64:
            # Each overwrite of a key adds a heap entry: rebuild the heap from the live entries.
            self._expiring = [
                (entry.expires, name) for name, entry in self._entries.items() if entry.expires is not None
            ]
            heapq.heapify(self._expiring)

    def _expire(self) -> None:
        now = self._clock()
        while self._expiring and self._expiring[0][0] <= now:
            _, key = heapq.heappop(self._expiring)
            self._live(key)

    def _make_room(self, key: str, more: int) -> None:
        new = key not in self._entries
        if (new and len(self._entries) >= self.max_entries) or self._size + more > self.max_bytes:
            self._expire()
        if new and len(self._entries) >= self.max_entries:
            raise StoreFull(self.max_entries, "entries")
        if more > 0 and self._size + more > self.max_bytes:
            raise StoreFull(self.max_bytes, "bytes")
