"""`EventLog`: the recent events of one event type, in the store of the server.

All processes that share the store append to one log. The log keeps a number of events and drops the oldest, so a
reader can be too slow: `EventLog.read` says whether events are missing. The newest events are cached, so that many
subscribers cost one read of the store.
"""

from __future__ import annotations

import asyncio
import bisect
import hashlib
import os
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec import Raw, Struct

from ...stores.base import GAP, SCAN_PAGE, Store, entry_name, split
from ...stores.versioned_records import VersionedRecords

CACHED_EVENTS: Final = 1000
"""Events of one type that a process keeps in memory."""
HEAD_WRITE_ATTEMPTS: Final = 16
"""Attempts to advance the head of a log that other processes advance, too."""


class RecordedEvent(Struct, array_like=True):
    """One event as it is stored. ``number`` is its place in the log."""

    before: int
    """The number of the event before it."""
    id: str
    timestamp: float
    data: Raw
    number: int = 0


class _Head(Struct, array_like=True):
    log: str
    """The id of the log. It changes when the store loses the log."""
    last: int


class LogPage(NamedTuple):
    """Events after a place in the log."""

    events: list[RecordedEvent]
    missing: bool
    """Events between the place and the first of these are gone."""
    last: int
    """The place up to which the log was read."""


_events = VersionedRecords(RecordedEvent)
_heads = VersionedRecords(_Head)


class EventLog:
    """The log of one event type."""

    def __init__(
        self, store: Callable[[], Store], server: str, name: str, *, keep: int, max_age: float
    ) -> None:
        place = f"{_short(server)}/{_short(name)}"
        self._store = store
        self._keep = keep
        self._max_age = max_age
        self._folder = f"events-log/{place}"
        self._head_key = f"events-head/{place}"
        self._topic = f"events/{place}"
        self._writing = asyncio.Lock()
        self._reading = asyncio.Lock()
        self._recent: list[RecordedEvent] = []
        self._floor: int | None = None
        """Events after this number are cached."""
        self._stale = True
        self._id: str | None = None
        self.version = 0
        """Changes when there may be new events."""
        self._waiting: set[asyncio.Future[None]] = set()
        self._stops: tuple[Callable[[], None], ...] = ()

    def open(self) -> None:
        """Subscribe to events that other processes append."""
        store = self._store()
        self._stops = (store.subscribe(self._topic, self._changed), store.subscribe(GAP, self._changed))

    def close(self) -> None:
        for stop in self._stops:
            stop()
        self._stops = ()
        self._floor, self._recent, self._id, self._stale = None, [], None, True

    async def append(self, id: str, timestamp: float, data: Raw) -> int:
        """Append an event, wake all readers, and return its number."""
        store = self._store()
        async with self._writing:
            head = await self._head()
            event = RecordedEvent(head.last, id, timestamp, data)
            key = await store.append(self._folder, _events.encode(event), keep=self._keep, ttl=self._max_age)
            number = int(split(key)[1])
            await self._advance(number)
        await store.publish(self._topic, b"")
        return number

    async def head(self) -> tuple[str, int]:
        """Return the id of the log and the number of its newest event."""
        head = await self._head()
        return head.log, head.last

    async def id(self) -> str:
        """Return the id of the log."""
        if self._id is None:
            self._id = (await self._head()).log
        return self._id

    async def read(self, after: int, limit: int) -> LogPage:
        """Return at most ``limit`` events after the number ``after``."""
        events = await self._after(after, limit)
        if not events:
            head = await self._head()
            if head.last <= after:
                return LogPage([], False, after)
            self._stale = True  # another process has appended, and its message is still on the way
            events = await self._after(after, limit)
            if not events:
                return LogPage([], True, head.last)  # they have expired
        return LogPage(events, events[0].before > after, events[-1].number)

    async def wait(self, version: int, seconds: float) -> bool:
        """Wait until `version` differs from ``version``, at most ``seconds``. Returns whether it does."""
        if self.version != version:
            return True
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            self._stale = True  # a message of the store may have been lost
            return False
        finally:
            self._waiting.discard(future)
        return True

    def wake(self) -> None:
        """Wake all readers."""
        self.version += 1
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    # --- inside ---------------------------------------------------------------------------------------------

    def _changed(self, _: bytes) -> None:
        self._stale = True
        self.wake()

    async def _head(self) -> _Head:
        store = self._store()
        found = await store.get(self._head_key)
        if found is None:
            new = _heads.encode(_Head(os.urandom(8).hex(), 0))
            await store.put(self._head_key, new, only_new=True)
            found = await store.get(self._head_key) or new
        head = _heads.decode(found)
        if head.log != self._id:  # also a log that was lost and begins again
            self._id, self._floor, self._recent = head.log, None, []
        return head

    async def _advance(self, number: int) -> None:
        store = self._store()
        for _ in range(HEAD_WRITE_ATTEMPTS):
            head = await self._head()
            if head.last >= number:
                return
            new = _heads.encode(_Head(head.log, number))
            if await store.put(self._head_key, new, expect=_heads.encode(head)):
                return

    async def _after(self, after: int, limit: int) -> list[RecordedEvent]:
        if self._stale or self._floor is None:
            await self._refresh()
        if self._floor is None or after < self._floor:
            return await self._scan(after, min(limit, SCAN_PAGE))
        start = bisect.bisect_right(self._recent, after, key=_number)
        return self._recent[start : start + limit]

    async def _refresh(self) -> None:
        async with self._reading:
            if not self._stale and self._floor is not None:
                return
            self._stale = False
            if self._floor is None:
                self._floor = (await self._head()).last
            last = self._recent[-1].number if self._recent else self._floor
            while page := await self._scan(last, SCAN_PAGE):
                self._recent += page
                last = page[-1].number
            if len(self._recent) > CACHED_EVENTS:
                dropped = len(self._recent) - CACHED_EVENTS
                self._floor = self._recent[dropped - 1].number
                del self._recent[:dropped]

    async def _scan(self, after: int, limit: int) -> list[RecordedEvent]:
        rows = await self._store().scan(
            self._folder, after=f"{self._folder}/{entry_name(after)}", limit=limit
        )
        events: list[RecordedEvent] = []
        for key, value in rows:
            event = _events.decode(value)
            event.number = int(split(key)[1])
            events.append(event)
        return events


def _number(event: RecordedEvent) -> int:
    return event.number


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
