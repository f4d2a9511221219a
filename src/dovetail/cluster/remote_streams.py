"""Streams of calls in another process: a client that reconnects here resumes them (event replay).

The process that runs the call owns its stream and forwards new events to followers. If that process has died,
the events in the store are replayed, and an unfinished call ends with an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from msgspec import Struct, field

from ..errors import ProtocolError
from ..transports.http.server.sessions import LiveSession
from ..transports.http.server.sse_event_log import EventSink, LoggedStream, position
from ..wire.frames import RequestId
from ..wire.sse import encode_event
from .message_bus import (
    Acknowledgement,
    BusMessage,
    FollowStream,
    MessageBus,
    StreamEvents,
    StreamSnapshot,
    UnfollowStream,
)
from .stored_events import StoredEvents

Found = tuple[LoggedStream, list[bytes]]


class RemoteSink(Struct, eq=False):
    """A sink that forwards the events of a local stream to a follower in another process."""

    elsewhere: RemoteStreams
    stream: LoggedStream
    worker: str
    follower: int

    def write(self, data: bytes) -> None:
        self.elsewhere.bus.send(self.worker, StreamEvents(self.follower, data))

    async def drain(self) -> None: ...

    async def finish(self, last: bytes | None = None) -> None:
        self._end(last or b"")

    def close_soon(self) -> None:
        self._end(b"")

    def _end(self, last: bytes) -> None:
        if self.elsewhere.followers.pop((self.worker, self.follower), None) is not None:
            self.elsewhere.bus.send(self.worker, StreamEvents(self.follower, last, True))


class RemoteStream(LoggedStream, eq=False, kw_only=True):
    """A stream whose events come from another process. They are forwarded to the client and not logged here."""

    session: LiveSession
    worker: str
    left: Callable[[], None]
    early: list[bytes] = field(default_factory=list[bytes])
    """Events that arrived before the response was attached."""

    def detach(self, sink: EventSink) -> None:
        super().detach(sink)
        if not self.sinks:
            self.left()

    def receive(self, events: bytes, *, over: bool) -> None:
        self.over = self.over or over
        if not self.sinks:
            self.early.append(events)
            return
        if events:
            self.sinks[-1].write(events)
        if self.over:
            for sink in tuple(self.sinks):
                sink.close_soon()


class RemoteStreams:
    """Streams of other processes that this process follows, and followers of local streams.

    ``find`` returns the live session for a storage name.
    """

    def __init__(
        self, bus: MessageBus, events: StoredEvents, find: Callable[[str], LiveSession | None]
    ) -> None:
        self.bus = bus
        self.followers: dict[tuple[str, int], RemoteSink] = {}
        self._events = events
        self._find = find
        self._numbers = itertools.count(1)
        self._followed: dict[int, RemoteStream] = {}
        bus.handlers |= {
            FollowStream: self._follow,
            UnfollowStream: self._unfollow,
            StreamEvents: self._stream_events,
        }
        bus.on_worker_lost = self._lost

    async def follow(self, live: LiveSession, name: str, last: str) -> Found | None:
        """Find the stream of an event of another process, and the events after it. None: the event is
        unknown.

        Raises:
            StoreError: the store or the other process is unavailable.
        """
        place = position(last)
        if place is None or live.log is None:
            return None
        worker, number = last.partition("-")[0], next(self._numbers)

        def left() -> None:
            if self._followed.pop(number, None) is not None and not stream.over:
                self.bus.send(worker, UnfollowStream(number))

        stream = RemoteStream(
            live.log, -1, place[0], written=place[1], session=live, worker=worker, left=left
        )
        self._followed[number] = stream
        self.bus.watched.add(worker)
        found: BusMessage | None = None
        try:
            found = await self.bus.request(worker, FollowStream(name, last, number))
        finally:
            if not isinstance(found, StreamSnapshot):
                self._followed.pop(number, None)
        if not isinstance(found, StreamSnapshot):
            return await self._read_stored(stream, name, place[1], gone=found is None)
        stream.request, stream.over = found.request, stream.over or found.over
        missed = [found.events, *stream.early]
        stream.early.clear()
        return stream, [events for events in missed if events]

    async def _read_stored(self, stream: RemoteStream, name: str, seen: int, *, gone: bool) -> Found | None:
        """Read a stream from the store, because its process does not know it any more or has died."""
        kept = await self._events.read(name, stream.name)
        missed = {
            entry.number: entry.text for entry in kept if entry.number > seen and entry.text is not None
        }
        ended = any(entry.text is None for entry in kept)
        if (
            not kept
            or (not ended and not gone)
            or list(missed) != list(range(seen + 1, seen + 1 + len(missed)))
        ):
            return None  # events in between were lost
        texts = [text.encode() for text in missed.values()]
        stream.over, stream.request = True, kept[-1].request
        if not ended and stream.request is not None:
            texts.append(_interrupted(stream, stream.request))
        return stream, texts

    def _lost(self, worker: str) -> None:
        """End the followed streams of a process that has died."""
        for number, stream in tuple(self._followed.items()):
            if stream.worker == worker:
                self._followed.pop(number, None)
                event = b"" if stream.request is None else _interrupted(stream, stream.request)
                stream.receive(event, over=True)

    # --- message handlers -----------------------------------------------------------------------------------

    def _follow(self, bus_message: FollowStream, sender: str) -> BusMessage:
        live = self._find(bus_message.session)
        found = None if live is None or live.log is None else live.log.find(bus_message.last)
        if found is None:
            return Acknowledgement(False)
        stream, missed = found
        if not stream.over:
            sink = self.followers[sender, bus_message.follower] = RemoteSink(
                self, stream, sender, bus_message.follower
            )
            stream.sinks.append(sink)
        return StreamSnapshot(b"".join(missed), stream.over, stream.request)

    def _unfollow(self, bus_message: UnfollowStream, sender: str) -> None:
        sink = self.followers.pop((sender, bus_message.follower), None)
        if sink is not None:
            sink.stream.detach(sink)

    def _stream_events(self, bus_message: StreamEvents, sender: str) -> None:
        stream = self._followed.get(bus_message.follower)
        if stream is not None and stream.worker == sender:
            if bus_message.over:
                del self._followed[bus_message.follower]
            stream.receive(bus_message.events, over=bus_message.over)


def _interrupted(stream: RemoteStream, request: RequestId) -> bytes:
    """Return the last event of a call whose process has died."""
    error = stream.session.session.codec.encode_error(request, ProtocolError("call_interrupted"))
    return encode_event(error)
