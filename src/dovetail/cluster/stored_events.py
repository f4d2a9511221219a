"""`StoredEvents`: the events of legacy sessions in the store, for replay after their process has died.

Clients normally resume from the memory of the process that wrote the events, so no request waits for the
store. Events that were not stored when a process is killed are lost; gaps in the event numbers show that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from ..settings import Limits
from ..stores.base import Store, StoreError
from ..stores.versioned_records import VersionedRecords
from ..transports.http.server.sse_event_log import GENERAL, LoggedStream
from ..wire.frames import RequestId

ENTRY_OVERHEAD_BYTES: Final = 512
"""Estimated overhead of one stored entry."""
OWNER_GROUPS: Final = 4096
"""Number of groups into which owners are hashed for accounting."""
STORED_EVENT_LIFETIME: Final = 600.0
"""How long the events of a legacy session are stored for replay."""
EVENT_WRITE_DELAY: Final = 0.005
"""How long events of a general stream are collected before they are written."""
MAX_UNWRITTEN_EVENT_BYTES: Final = 16 << 20
"""Events that wait to be written; further events are not stored."""
MAX_STORED_EVENT_BYTES_PER_SESSION: Final = 64 << 20
"""Events of one session that one process stores within `STORED_EVENT_LIFETIME`."""
MAX_STORED_EVENT_BYTES: Final = 512 << 20
"""Events of all sessions that one process stores within `STORED_EVENT_LIFETIME`."""


log = logging.getLogger("dovetail.http")


class StoredEvent(Struct, array_like=True, frozen=True):
    """One event, or the end of a stream (without text)."""

    stream: str
    number: int
    text: str | None
    request: RequestId | None = None
    """The request that the stream belongs to; None for the general stream and for a batch."""


_records = VersionedRecords(list[StoredEvent])


class StoredEvents:
    """Writes the events of local sessions to the store, and reads those of other processes."""

    def __init__(self, store: Store, limits: Limits, clock: Callable[[], float]) -> None:
        self._store = store
        self._keep = limits.max_replay_events
        self._bytes = limits.max_replay_bytes_per_session
        self._budget = _ByteBudget(
            clock,
            seconds=STORED_EVENT_LIFETIME,
            own=MAX_STORED_EVENT_BYTES_PER_SESSION,
            total=MAX_STORED_EVENT_BYTES,
        )
        self._waiting: dict[str, list[StoredEvent]] = {}
        self._size = 0
        self._writing: asyncio.Task[None] | None = None
        self._scheduled_write: asyncio.TimerHandle | None = None

    def append(self, session: str, stream: LoggedStream, event: bytes | None) -> None:
        """Schedule the write of an event, or of the end of ``stream``."""
        size = 0 if event is None else len(event)
        if self._size + size > MAX_UNWRITTEN_EVENT_BYTES:
            return  # the store is slow or unavailable: readers see the gap
        self._size += size
        entry = StoredEvent(
            stream.name, stream.written, None if event is None else event.decode(), stream.request
        )
        self._waiting.setdefault(session, []).append(entry)
        # General streams collect events for a moment: a change goes to many sessions at once. If the process
        # dies in between, `session_recovered` reports possible changes.
        if stream.number != GENERAL:
            self._write_now()
        elif self._scheduled_write is None:
            self._scheduled_write = asyncio.get_running_loop().call_later(EVENT_WRITE_DELAY, self._write_now)

    def _write_now(self) -> None:
        if self._scheduled_write is not None:
            self._scheduled_write.cancel()
            self._scheduled_write = None
        if self._waiting and (self._writing is None or self._writing.done()):
            self._writing = asyncio.get_running_loop().create_task(self._write(), name="dovetail-events")

    async def _write(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            self._size = 0
            done = await asyncio.gather(
                *(self._append(session, entries) for session, entries in waiting.items()),
                return_exceptions=True,
            )
            for error in done:
                if isinstance(error, StoreError):
                    log.warning("session events not stored: %s", error.message)
                    break

    async def _append(self, session: str, entries: list[StoredEvent]) -> None:
        data = _records.encode(entries)
        if len(data) <= self._bytes and self._budget.acquire(session, len(data)):
            # Retain fewer large entries, so that the log of a session has a bounded size.
            keep = min(self._keep, self._bytes // len(data))
            await self._store.append(f"events/{session}", data, keep=keep, ttl=STORED_EVENT_LIFETIME)

    async def read(self, session: str, stream: str) -> list[StoredEvent]:
        """Return the stored events of one stream, oldest first."""
        found: list[StoredEvent] = []
        after = ""
        while page := await self._store.scan(f"events/{session}", after=after):
            after = page[-1][0]
            for _, data in page:
                found += [entry for entry in _records.decode(data) if entry.stream == stream]
        return found

    async def close(self) -> None:
        """Wait until all events are written or have failed."""
        self._write_now()
        if self._writing is not None:
            await self._writing


class _ByteBudget:
    """Limits what one process stores in ``seconds``: ``own`` bytes per owner, ``total`` bytes for all.

    No owner is refused: what exceeds the limit is not stored.
    """

    def __init__(self, clock: Callable[[], float], *, seconds: float, own: int, total: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._most_own, self._most = own, total
        self._since = clock()
        self._all = 0
        self._own = [0] * OWNER_GROUPS
        """By owner group: owners in one group share a budget."""

    def acquire(self, owner: str, size: int) -> bool:
        """Return whether ``size`` more bytes fit into the budget, and count them."""
        if abs(self._clock() - self._since) > self._seconds:
            self._since, self._all, self._own = self._clock(), 0, [0] * OWNER_GROUPS
        place, size = hash(owner) % OWNER_GROUPS, size + ENTRY_OVERHEAD_BYTES
        if self._all + size > self._most or self._own[place] + size > self._most_own:
            return False
        self._all += size
        self._own[place] += size
        return True
