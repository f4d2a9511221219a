"""The event log of one session: it numbers events and replays them to clients that resume a stream.

A session has a *general* stream (number 0, which a GET opens) and one stream for each POST whose response is an event
stream. An event id is ``<log>-<stream>.<number>``. It names the stream, as 2025-11-25 requires, and never equals an id
of another session. When a stream loses its connection, the client opens another one with GET and ``Last-Event-ID``, and
gets the events in between from the log.

Limits: `Limits.max_replay_events` and `Limits.max_replay_bytes_per_session` for one log, `Limits.max_replay_bytes` for
all logs of an app.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct

from ....core.channel import Session
from ....lazy_pattern import lazy_pattern
from ....settings import Limits
from ....wire.frames import RequestId
from ....wire.sse import encode_event

GENERAL: Final = 0
_ID: Final = lazy_pattern(r"([0-9a-f]{8}-[0-9]{1,12})\.([0-9]{1,12})")


def position(last_event_id: str) -> tuple[str, int] | None:
    """The name of the stream of an event, and its number there."""
    parts = _ID.fullmatch(last_event_id)
    return None if parts is None else (parts[1], int(parts[2]))


class EventSink(Protocol):
    """A response that events are written to, in this process (`EventStream`) or in another one."""

    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    async def finish(self, last: bytes | None = None) -> None: ...
    def close_soon(self) -> None: ...


class Journal(Protocol):
    """Stores events that must outlive this process."""

    @property
    def tag(self) -> str:
        """The prefix of the stream names of this process."""
        ...

    def keep(self, stream: LoggedStream, event: bytes | None) -> None:
        """Store an event of ``stream``; None is its end."""
        ...


class EventHistory(Protocol):
    """An event store of the user: it gets each event, and returns the events that a client has missed."""

    def journal(self, session: Session) -> Journal:
        """The object that stores the events of one session."""
        ...

    async def missed(
        self, session: Session, log: SseEventLog, last: str
    ) -> tuple[LoggedStream, list[bytes]] | None:
        """The stream of an event and the later events, as `SseEventLog.find` returns them."""
        ...


class ReplayBudget(Struct, eq=False):
    """The bytes in all event logs of one app, and which logs are the largest."""

    limit: int
    total: int = 0
    _holders: dict[int, dict[SseEventLog, None]] = {}
    """The logs by the bit length of their size, so that a large one is found in constant time."""

    def moved(self, log: SseEventLog, before: int, after: int) -> None:
        """The size of ``log`` has another bit length than before."""
        if before:
            del self._holders[before.bit_length()][log]
        if after:
            self._holders.setdefault(after.bit_length(), {})[log] = None

    def balance(self) -> None:
        """Drop events of the largest logs until the limit is met, so that new sessions keep their events."""
        while self.total > self.limit:
            largest = max(size for size, logs in self._holders.items() if logs)
            next(iter(self._holders[largest])).drop_oldest()


class LoggedStream(Struct, eq=False):
    """A logical stream: numbered events, sent to the newest response of the stream."""

    log: SseEventLog
    number: int
    name: str
    """The prefix of its event ids."""
    request: RequestId | None = None
    """The id of the call whose stream it is, if any."""
    written: int = 0
    """The number of the newest event."""
    kept: int = 0
    """Events of this stream in the log."""
    dropped: int = 0
    """The number of the newest event that the log has dropped."""
    over: bool = False
    """No further event is written."""
    sinks: list[EventSink] = []
    """The open responses. Each message is sent once, on the newest of them."""

    def detach(self, sink: EventSink) -> None:
        if sink in self.sinks:
            self.sinks.remove(sink)

    def primer(self, retry: int) -> bytes:
        """2025-11-25: the first event has an id and no data, so that the client can resume from the start."""
        return encode_event(b"", id=f"{self.name}.{self.written}", retry=retry)

    def write(self, message: bytes, *, lasting: bool = True) -> None:
        """Send and record one message; a ``lasting`` one is stored in the journal, too."""
        event = self.record(message, lasting=lasting)
        if self.sinks:
            self.sinks[-1].write(event)

    def record(self, message: bytes, *, lasting: bool = True) -> bytes:
        """Record one message; return the event to send."""
        self.written = number = self.written + 1
        event = encode_event(message, id=f"{self.name}.{number}")
        self.log.keep(self, event, lasting=lasting)
        return event


class SseEventLog:
    """The streams and recent events of one session."""

    __slots__ = ("_budget", "_bytes", "_events", "_journal", "_limits", "_next", "_tag", "general", "streams")

    def __init__(
        self, limits: Limits, budget: ReplayBudget, tag: str | None = None, journal: Journal | None = None
    ) -> None:
        self._limits = limits
        self._budget = budget
        self._journal = journal
        self._events: deque[tuple[LoggedStream, int, bytes]] = deque()
        self._bytes = 0
        self._next = 1
        general = os.urandom(4).hex() if tag is None else tag
        self._tag = general if journal is None else journal.tag
        self.general = LoggedStream(self, GENERAL, f"{general}-{GENERAL}")
        self.streams: dict[int, LoggedStream] = {GENERAL: self.general}

    def open(self, request: RequestId | None = None) -> LoggedStream:
        """A new stream for a POST."""
        stream = LoggedStream(self, self._next, f"{self._tag}-{self._next}", request)
        self._next += 1
        self.streams[stream.number] = stream
        return stream

    def finish(self, stream: LoggedStream) -> None:
        """Mark ``stream`` as complete. It can be resumed as long as the log has its events."""
        stream.over = True
        if self._journal is not None:
            self._journal.keep(stream, None)
        if not stream.kept:
            self.streams.pop(stream.number, None)

    def keep(self, stream: LoggedStream, event: bytes, *, lasting: bool = True) -> None:
        if lasting and self._journal is not None:
            self._journal.keep(stream, event)
        limits, events, budget = self._limits, self._events, self._budget
        events.append((stream, stream.written, event))
        stream.kept += 1
        before, self._bytes = self._bytes, self._bytes + len(event)
        budget.total += len(event)
        if before.bit_length() != self._bytes.bit_length():
            budget.moved(self, before, self._bytes)
        while len(events) > limits.max_replay_events or self._bytes > limits.max_replay_bytes_per_session:
            self.drop_oldest()
        if budget.total > budget.limit:
            budget.balance()

    def drop_oldest(self) -> None:
        """Drop one event. Clients that have not received it cannot resume before it."""
        stream, number, event = self._events.popleft()
        self._shrink(len(event))
        stream.dropped = number
        stream.kept -= 1
        if stream.over and not stream.kept:
            self.streams.pop(stream.number, None)

    def find(self, last_event_id: str) -> tuple[LoggedStream, list[bytes]] | None:
        """Return the stream of an event, and the later events.

        None: the id does not belong to this log, or a later event has been dropped.
        """
        place = position(last_event_id)
        if place is None:
            return None
        name, seen = place
        stream = self.streams.get(int(name.partition("-")[2]))
        if stream is None or stream.name != name or not stream.dropped <= seen <= stream.written:
            return None
        return stream, [text for one, number, text in self._events if one is stream and number > seen]

    def rejoin(self, last_event_id: str) -> list[bytes]:
        """Return the events of the general stream after an unknown or dropped event; numbering continues from it."""
        place = position(last_event_id)
        seen = 0 if place is None else place[1]
        if seen > self.general.written:
            self.general.written = self.general.dropped = seen
        return [text for one, number, text in self._events if one is self.general and number > seen]

    def taken(self, stream: LoggedStream) -> list[tuple[int, bytes]]:
        """The events of ``stream``, with their numbers."""
        return [(number, text) for one, number, text in self._events if one is stream]

    def resume_general(self, written: int, events: Sequence[tuple[int, bytes]]) -> None:
        """Continue the general stream of another process."""
        general, mine = self.general, self._events
        self._events = deque(entry for entry in mine if entry[0] is not general)
        self._shrink(self._bytes - sum(len(text) for _, _, text in self._events))
        general.kept, general.dropped = 0, events[0][0] - 1 if events else written
        for number, text in events:
            general.written = number
            self.keep(general, text, lasting=False)
        general.written = written

    def close(self) -> None:
        """End every response and drop every event."""
        for stream in list(self.streams.values()):
            for sink in stream.sinks:
                sink.close_soon()
        self._shrink(self._bytes)
        self._events.clear()

    def _shrink(self, size: int) -> None:
        before, self._bytes = self._bytes, self._bytes - size
        self._budget.total -= size
        if before.bit_length() != self._bytes.bit_length():
            self._budget.moved(self, before, self._bytes)
