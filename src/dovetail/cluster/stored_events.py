"""The events of legacy sessions in the store, for those who come back after the process that wrote them is gone.

As long as it is there, its own memory is what clients resume from; so nothing waits for the store here. What has not
got there when the process is killed is lost, which the numbers of the events show.
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
from ..transports.http.server.event_log import GENERAL, LoggedStream
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
    """One event, or (with none) the end of a stream."""

    stream: str
    number: int
    text: str | None
    request: RequestId | None = None
    """The call whose stream it is; None for the general stream, and for an array."""


_records = VersionedRecords(list[StoredEvent])


class StoredEvents:
    """What one process writes of the event logs of its sessions, and reads of those of others."""

    def __init__(self, store: Store, limits: Limits, clock: Callable[[], float]) -> None:
        self._store = store
        self._keep = limits.max_replay_events
        self._bytes = limits.max_replay_bytes_per_session
        self._shares = _Shares(
            clock,
            seconds=STORED_EVENT_LIFETIME,
            own=MAX_STORED_EVENT_BYTES_PER_SESSION,
            total=MAX_STORED_EVENT_BYTES,
        )
        self._waiting: dict[str, list[StoredEvent]] = {}
        self._size = 0
        self._writing: asyncio.Task[None] | None = None
        self._soon: asyncio.TimerHandle | None = None

    def keep(self, session: str, stream: LoggedStream, event: bytes | None) -> None:
        """Write an event, or the end of ``stream``, soon."""
        size = 0 if event is None else len(event)
        if self._size + size > MAX_UNWRITTEN_EVENT_BYTES:
            return  # the store is slow or away: the gap is seen by whoever reads
        self._size += size
        entry = StoredEvent(
            stream.name, stream.written, None if event is None else event.decode(), stream.request
        )
        self._waiting.setdefault(session, []).append(entry)
        # News goes to many at once, who are told before any of it is written; if we die in between, `session_recovered`
        # tells them that anything may have changed.
        if stream.number != GENERAL:
            self._write_now()
        elif self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(EVENT_WRITE_DELAY, self._write_now)

    def _write_now(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
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
                    log.warning("events were not kept: %s", error.message)
                    break

    async def _append(self, session: str, entries: list[StoredEvent]) -> None:
        data = _records.encode(entries)
        if len(data) <= self._bytes and self._shares.take(session, len(data)):
            # Of large entries fewer stay, so that all of a session together have a bound.
            keep = min(self._keep, self._bytes // len(data))
            await self._store.append(f"events/{session}", data, keep=keep, ttl=STORED_EVENT_LIFETIME)

    async def read(self, session: str, stream: str) -> list[StoredEvent]:
        """What there is of one stream, oldest first."""
        found: list[StoredEvent] = []
        after = ""
        while page := await self._store.scan(f"events/{session}", after=after):
            after = page[-1][0]
            for _, data in page:
                found += [entry for entry in _records.decode(data) if entry.stream == stream]
        return found

    async def close(self) -> None:
        """Wait until all is written, or cannot be."""
        self._write_now()
        if self._writing is not None:
            await self._writing


class _Shares:
    """Limits what one process writes in ``seconds``: ``own`` bytes for each owner, ``total`` for all.

    No owner is refused: what exceeds the limit is not stored.
    """

    def __init__(self, clock: Callable[[], float], *, seconds: float, own: int, total: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._most_own, self._most = own, total
        self._since = clock()
        self._all = 0
        self._own = [0] * OWNER_GROUPS
        """By the owner's place: a few share one, which costs them time and never safety."""

    def take(self, owner: str, size: int) -> bool:
        """Whether so many bytes more may stay for the whole time."""
        if abs(self._clock() - self._since) > self._seconds:
            self._since, self._all, self._own = self._clock(), 0, [0] * OWNER_GROUPS
        place, size = hash(owner) % OWNER_GROUPS, size + ENTRY_OVERHEAD_BYTES
        if self._all + size > self._most or self._own[place] + size > self._most_own:
            return False
        self._all += size
        self._own[place] += size
        return True
