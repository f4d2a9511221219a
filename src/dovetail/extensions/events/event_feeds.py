"""Feeds: where the events of one type are read from, for all delivery modes.

`LogFeed` reads the log of events that the server has emitted. `SourceFeed` asks a function of the author for what
happened in an upstream system. Cursors are sealed: a client cannot make one, so it can neither read what happened
before its subscription nor send anything to an upstream system.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec import Raw, Struct

from ...errors import ProtocolError, StateError
from ...stores.base import SCAN_PAGE
from ...wire.seal import bind
from .event_log import EventLog, RecordedEvent
from .event_model import EventOccurrence, iso
from .event_types import MAX_SOURCE_EVENTS, EventBatch, EventSubscriber, EventType, checked_id

if TYPE_CHECKING:
    from ...server.dispatcher import Dispatcher

log = logging.getLogger("dovetail.server")

CURSOR_LIFETIME: Final = 30 * 86_400.0
"""Seconds for which a cursor is valid. An older one continues at the newest event, with ``truncated``."""
SOURCE_TIMEOUT: Final = 30.0
"""Seconds that one read of a source may take."""


class FeedPage(Struct, frozen=True, kw_only=True):
    """The events of one subscriber after a cursor."""

    events: list[EventOccurrence] = []
    start: str | None
    """The position before the first event."""
    cursor: str | None
    """The position after the last processed event."""
    truncated: bool = False
    more: bool = False


class EventFeed(Protocol):
    """The events of one type."""

    @property
    def version(self) -> int:
        """Changes when there may be new events."""
        ...

    async def read(
        self, subscriber: EventSubscriber, cursor: str | None, limit: int, *, max_age: float | None = None
    ) -> FeedPage:
        """Return at most ``limit`` events after ``cursor``; without a cursor no events, but the newest position."""
        ...

    async def wait(self, version: int, seconds: float) -> bool:
        """Wait until there may be new events, at most ``seconds``. Returns whether there may be."""
        ...

    async def record(self, id: str, timestamp: float | None, data: Raw) -> None:
        """Record an event."""
        ...

    def open(self) -> None: ...

    def close(self) -> None: ...


class _Cursors:
    """Seals the positions of one event type."""

    def __init__(self, dispatcher: Dispatcher, name: str) -> None:
        self._dispatcher = dispatcher
        self._bound = bind("events", name)

    def write(self, payload: bytes) -> str:
        now = self._dispatcher.clock()
        return self._dispatcher.seal.seal("cursor", payload, expires=now + CURSOR_LIFETIME, bound=self._bound)

    def read(self, cursor: str) -> bytes | None:
        """Return the position; None for a cursor that is not of this server, or has expired."""
        try:
            return self._dispatcher.seal.open(
                "cursor", cursor, now=self._dispatcher.clock(), bound=self._bound
            )
        except ProtocolError:
            return None


class LogFeed:
    """The events that the server has emitted."""

    def __init__(self, dispatcher: Dispatcher, type: EventType, log: EventLog, max_age: float) -> None:
        self._dispatcher = dispatcher
        self._type = type
        self._log = log
        self._max_age = max_age
        self._cursors = _Cursors(dispatcher, type.name)
        self._last: tuple[str, int, str] = ("", -1, "")
        """The cursor that was written last: all subscribers of a type get the same one."""

    @property
    def version(self) -> int:
        return self._log.version

    def open(self) -> None:
        self._log.open()

    def close(self) -> None:
        self._log.close()

    async def wait(self, version: int, seconds: float) -> bool:
        return await self._log.wait(version, seconds)

    async def record(self, id: str, timestamp: float | None, data: Raw) -> None:
        await self._log.append(id, self._dispatcher.clock() if timestamp is None else timestamp, data)

    async def read(
        self, subscriber: EventSubscriber, cursor: str | None, limit: int, *, max_age: float | None = None
    ) -> FeedPage:
        if cursor is None:
            now = await self._newest()
            return FeedPage(start=now, cursor=now)
        place = await self._place(cursor)
        if place is None:
            now = await self._newest()
            return FeedPage(start=now, cursor=now, truncated=True)
        page = await self._log.read(place, limit)
        oldest = self._dispatcher.clock() - min(self._max_age, self._max_age if max_age is None else max_age)
        events: list[EventOccurrence] = []
        truncated, start = page.missing, place
        if page.missing:
            start = page.events[0].before if page.events else page.last
        for event in page.events:
            if event.timestamp < oldest:
                truncated, start = True, event.number if not events else start
            elif (data := self._type.shaped(event, subscriber)) is not None:
                events.append(self._occurrence(event, data))
        return FeedPage(
            events=events,
            start=self._cursor(start),
            cursor=self._cursor(page.last),
            truncated=truncated,
            more=len(page.events) >= min(limit, SCAN_PAGE),
        )

    def _occurrence(self, event: RecordedEvent, data: Raw) -> EventOccurrence:
        return EventOccurrence(
            event_id=event.id,
            name=self._type.name,
            timestamp=iso(event.timestamp),
            data=data,
            cursor=self._cursor(event.number),
        )

    async def _newest(self) -> str:
        id, last = await self._log.head()
        self._last = self._last if self._last[0] == id else (id, -1, "")
        return self._cursor(last)

    async def _place(self, cursor: str) -> int | None:
        payload = self._cursors.read(cursor)
        id = await self._log.id()
        if self._last[0] != id:
            self._last = (id, -1, "")
        if payload is None:
            return None
        name, _, number = payload.decode("ascii", "replace").partition(":")
        return int(number) if name == id and number.isdigit() else None

    def _cursor(self, number: int) -> str:
        id, last, written = self._last
        if number != last:
            written = self._cursors.write(f"{id}:{number}".encode())
            self._last = (id, number, written)
        return written


class SourceFeed:
    """The events of an upstream system, read by a function of the author."""

    def __init__(self, dispatcher: Dispatcher, type: EventType) -> None:
        self._dispatcher = dispatcher
        self._type = type
        self._cursors = _Cursors(dispatcher, type.name)
        self.version = 0

    def open(self) -> None: ...

    def close(self) -> None: ...

    async def wait(self, version: int, seconds: float) -> bool:
        interval = self._type.poll_interval
        await asyncio.sleep(min(interval, seconds))
        return interval <= seconds

    async def record(self, id: str, timestamp: float | None, data: Raw) -> None:
        raise StateError(f"the events of {self._type.name!r} come from its source")

    async def read(
        self, subscriber: EventSubscriber, cursor: str | None, limit: int, *, max_age: float | None = None
    ) -> FeedPage:
        position = None if cursor is None else self._cursors.read(cursor)
        stale = cursor is not None and position is None
        found = await self._ask(subscriber, None if position is None else position.decode())
        after = self._cursor(found.cursor)
        if position is None:
            return FeedPage(start=after, cursor=after, truncated=stale)
        oldest = None if max_age is None else self._dispatcher.clock() - max_age
        truncated, events = found.truncated, list[EventOccurrence]()
        for number, event in enumerate(found.events):
            if oldest is not None and event.timestamp < oldest:
                truncated = True
                continue
            recorded = RecordedEvent(0, checked_id(event.id), event.timestamp, self._type.write(event.data))
            data = self._type.shaped(recorded, subscriber)
            if data is not None:
                # Only the position after the whole batch is known: until then the old one is safe to keep.
                place = after if number == len(found.events) - 1 else cursor
                events.append(
                    EventOccurrence(
                        event_id=event.id,
                        name=self._type.name,
                        timestamp=iso(event.timestamp),
                        data=data,
                        cursor=place,
                    )
                )
        return FeedPage(events=events, start=cursor, cursor=after, truncated=truncated, more=found.has_more)

    async def _ask(self, subscriber: EventSubscriber, position: str | None) -> EventBatch:
        source = self._type.source
        assert source is not None
        async with asyncio.timeout(SOURCE_TIMEOUT):
            found: Any = await source(subscriber.arguments, position, subscriber.principal)
        if not isinstance(found, EventBatch):
            raise TypeError(f"the source of {self._type.name!r} returns an EventBatch, not {type(found)!r}")
        if len(found.events) > MAX_SOURCE_EVENTS:
            raise ValueError(
                f"the source of {self._type.name!r} returned more than {MAX_SOURCE_EVENTS} events"
            )
        return found

    def _cursor(self, position: str | None) -> str | None:
        return None if position is None else self._cursors.write(position.encode())


def webhook_body(event: EventOccurrence, cursor: str | None) -> bytes:
    """The body of a delivery: its cursor is the position up to which everything was delivered."""
    return msgspec.json.encode(msgspec.structs.replace(event, cursor=cursor))
