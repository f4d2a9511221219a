"""A store in the memory of this process: nothing to install, nothing survives.

Expired entries go when they are touched and, at the latest, when room is needed: the soonest to expire are
known, so making room never searches. Both the number of keys and the bytes in them are limited.
"""

from __future__ import annotations

import bisect
import heapq
import logging
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from ..settings import MEMORY_STORE_BYTES, MEMORY_STORE_ENTRIES, SCAN_PAGE
from .base import StoreFull, Take

log = logging.getLogger("dovetail.stores")

_DIGITS: Final = 16
"""Of the running number of a log entry: keys must sort like numbers."""


class _Entry(NamedTuple):
    value: bytes
    expires: float | None


class MemoryStore:
    """Holds at most ``entries`` keys and ``size`` bytes of values; ``clock`` says what time it is."""

    def __init__(
        self,
        entries: int = MEMORY_STORE_ENTRIES,
        size: int = MEMORY_STORE_BYTES,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._limit = entries
        self._size_limit = size
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._keys: list[str] = []  # sorted, for scan
        self._size = 0
        self._expiring: list[tuple[float, str]] = []  # a heap; may name keys that were set again or deleted
        self._numbers: dict[str, int] = {}
        self._leases: dict[str, tuple[str, float]] = {}
        self._listeners: dict[str, list[Take]] = {}

    def __len__(self) -> int:
        self._expire()
        return len(self._entries)

    async def get(self, key: str) -> bytes | None:
        entry = self._live(key)
        return None if entry is None else entry.value

    async def put(self, key: str, value: bytes, *, ttl: float | None = None, only_new: bool = False) -> bool:
        old = self._live(key)
        if old is not None and only_new:
            return False
        self._make_room(key, len(value) - (0 if old is None else len(old.value)))
        expires = None if ttl is None else self._clock() + ttl
        if old is None:
            bisect.insort(self._keys, key)
        else:
            self._size -= len(old.value)
        self._entries[key] = _Entry(value, expires)
        self._size += len(value)
        if expires is not None:
            self._note_expiry(expires, key)
        return True

    async def delete(self, key: str) -> bool:
        found = self._live(key) is not None
        if found:
            self._drop(key)
        return found

    async def append(self, prefix: str, value: bytes, *, keep: int, ttl: float | None = None) -> str:
        # A log that was empty for a while goes on with the time: nobody may have read that far.
        number = self._numbers.get(prefix) or int(self._clock() * 1000)
        key = f"{prefix}/{number + 1:0{_DIGITS}d}"
        await self.put(key, value, ttl=ttl)
        self._numbers[prefix] = number + 1
        first = bisect.bisect_left(self._keys, prefix + "/")
        end = bisect.bisect_right(self._keys, key)
        for name in self._keys[first : max(first, end - keep)]:
            self._drop(name)
        return key

    async def scan(self, prefix: str, *, after: str = "", limit: int = SCAN_PAGE) -> list[tuple[str, bytes]]:
        self._expire()
        start = max(bisect.bisect_left(self._keys, prefix), bisect.bisect_right(self._keys, after))
        found: list[tuple[str, bytes]] = []
        for key in self._keys[start : start + limit]:
            if not key.startswith(prefix):
                break
            found.append((key, self._entries[key].value))
        return found

    async def lease(self, name: str, owner: str, ttl: float) -> bool:
        now = self._clock()
        holder = self._leases.get(name)
        if holder is not None and holder[0] != owner and holder[1] > now:
            return False
        if ttl <= 0:
            self._leases.pop(name, None)
            return True
        if holder is None and len(self._leases) >= self._limit:
            self._leases = {key: held for key, held in self._leases.items() if held[1] > now}
            if len(self._leases) >= self._limit:
                raise StoreFull(self._limit, "leases")
        self._leases[name] = (owner, now + ttl)
        return True

    async def publish(self, topic: str, message: bytes) -> None:
        for take in tuple(self._listeners.get(topic, ())):
            try:
                take(message)
            except Exception:
                # One listener that breaks its promise must not keep the news from the others.
                log.exception("a listener of %s failed", topic)

    def subscribe(self, topic: str, take: Take) -> Callable[[], None]:
        self._listeners.setdefault(topic, []).append(take)

        def stop() -> None:
            listeners = self._listeners.get(topic, [])
            if take in listeners:
                listeners.remove(take)
            if not listeners:
                self._listeners.pop(topic, None)

        return stop

    async def close(self) -> None:
        self._listeners.clear()

    # --- expiry and room ----------------------------------------------------------------------------------

    def _live(self, key: str) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is not None and entry.expires is not None and entry.expires <= self._clock():
            self._drop(key)
            return None
        return entry

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key)
        self._size -= len(entry.value)
        del self._keys[bisect.bisect_left(self._keys, key)]
        prefix = key[: -_DIGITS - 1]
        if prefix in self._numbers and not self._has(prefix + "/"):
            del self._numbers[prefix]

    def _has(self, prefix: str) -> bool:
        at = bisect.bisect_left(self._keys, prefix)
        return at < len(self._keys) and self._keys[at].startswith(prefix)

    def _note_expiry(self, expires: float, key: str) -> None:
        heapq.heappush(self._expiring, (expires, key))
        if len(self._expiring) > 2 * len(self._entries) + 64:
            # A key that is set again and again leaves a mark each time: start over with the living.
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
        if (new and len(self._entries) >= self._limit) or self._size + more > self._size_limit:
            self._expire()
        if new and len(self._entries) >= self._limit:
            raise StoreFull(self._limit, "entries")
        if more > 0 and self._size + more > self._size_limit:
            raise StoreFull(self._size_limit, "bytes")
