"""Streams of calls that run in another process: how a client that comes back here goes on with them.

The process that runs the call has its stream, and sends what is written to it to whoever follows. If it is gone, what
it had kept in the store is all there is; a call that had not ended then never will, which its client is told.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from msgspec import Struct, field

from ..errors import ProtocolError
from ..transports.http.server.event_log import EventSink, LoggedStream, position
from ..transports.http.server.sessions import LiveSession
from ..wire.frames import RequestId
from ..wire.sse import encode_event
from .message_bus import Done, Follow, Followed, Known, MessageBus, More, Unfollow
from .stored_events import StoredEvents

Found = tuple[LoggedStream, list[bytes]]


class RemoteSink(Struct, eq=False):
    """The response of another process, as a stream here sees it."""

    elsewhere: RemoteStreams
    stream: LoggedStream
    worker: str
    follower: int

    def write(self, data: bytes) -> None:
        self.elsewhere.mail.tell(self.worker, More(self.follower, data))

    async def drain(self) -> None: ...

    async def finish(self, last: bytes | None = None) -> None:
        self._end(last or b"")

    def close_soon(self) -> None:
        self._end(b"")

    def _end(self, last: bytes) -> None:
        if self.elsewhere.followers.pop((self.worker, self.follower), None) is not None:
            self.elsewhere.mail.tell(self.worker, More(self.follower, last, True))


class RemoteStream(LoggedStream, eq=False, kw_only=True):
    """A stream that another process writes; what comes from there is passed on and not kept here."""

    session: LiveSession
    worker: str
    left: Callable[[], None]
    early: list[bytes] = field(default_factory=list[bytes])
    """What came before there was a response to pass it to."""

    def detach(self, sink: EventSink) -> None:
        super().detach(sink)
        if not self.sinks:
            self.left()

    def take(self, events: bytes, *, over: bool) -> None:
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
    """The streams that this process follows, and those it is followed on.

    ``find`` gives the session in memory that the store has under a name.
    """

    def __init__(
        self, mail: MessageBus, events: StoredEvents, find: Callable[[str], LiveSession | None]
    ) -> None:
        self.mail = mail
        self.followers: dict[tuple[str, int], RemoteSink] = {}
        self._events = events
        self._find = find
        self._numbers = itertools.count(1)
        self._followed: dict[int, RemoteStream] = {}
        mail.handlers |= {Follow: self._follow, Unfollow: self._unfollow, More: self._more}
        mail.lost = self._lost

    async def follow(self, live: LiveSession, name: str, last: str) -> Found | None:
        """The stream of an event that another process wrote, and what came after it; None: nobody knows of it.

        Raises:
            StoreError: that cannot be found out now.
        """
        place = position(last)
        if place is None or live.log is None:
            return None
        worker, number = last.partition("-")[0], next(self._numbers)

        def left() -> None:
            if self._followed.pop(number, None) is not None and not stream.over:
                self.mail.tell(worker, Unfollow(number))

        stream = RemoteStream(
            live.log, -1, place[0], written=place[1], session=live, worker=worker, left=left
        )
        self._followed[number] = stream
        self.mail.watched.add(worker)
        found: Known | None = None
        try:
            found = await self.mail.ask(worker, Follow(name, last, number))
        finally:
            if not isinstance(found, Followed):
                self._followed.pop(number, None)
        if not isinstance(found, Followed):
            return await self._recall(stream, name, place[1], gone=found is None)
        stream.request, stream.over = found.request, stream.over or found.over
        missed = [found.events, *stream.early]
        stream.early.clear()
        return stream, [events for events in missed if events]

    async def _recall(self, stream: RemoteStream, name: str, seen: int, *, gone: bool) -> Found | None:
        """What the store has of a stream that its process does not know any more, or that is gone with it."""
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
            return None  # something between is lost
        texts = [text.encode() for text in missed.values()]
        stream.over, stream.request = True, kept[-1].request
        if not ended and stream.request is not None:
            texts.append(_interrupted(stream, stream.request))
        return stream, texts

    def _lost(self, worker: str) -> None:
        """A process is gone, and with it the calls whose streams are followed here."""
        for number, stream in tuple(self._followed.items()):
            if stream.worker == worker:
                self._followed.pop(number, None)
                event = b"" if stream.request is None else _interrupted(stream, stream.request)
                stream.take(event, over=True)

    # --- letters --------------------------------------------------------------------------------------------

    def _follow(self, letter: Follow, sender: str) -> Known:
        live = self._find(letter.session)
        found = None if live is None or live.log is None else live.log.find(letter.last)
        if found is None:
            return Done(False)
        stream, missed = found
        if not stream.over:
            sink = self.followers[sender, letter.follower] = RemoteSink(self, stream, sender, letter.follower)
            stream.sinks.append(sink)
        return Followed(b"".join(missed), stream.over, stream.request)

    def _unfollow(self, letter: Unfollow, sender: str) -> None:
        sink = self.followers.pop((sender, letter.follower), None)
        if sink is not None:
            sink.stream.detach(sink)

    def _more(self, letter: More, sender: str) -> None:
        stream = self._followed.get(letter.follower)
        if stream is not None and stream.worker == sender:
            if letter.over:
                del self._followed[letter.follower]
            stream.take(letter.events, over=letter.over)


def _interrupted(stream: RemoteStream, request: RequestId) -> bytes:
    """The last event of a call whose process is gone."""
    error = stream.session.session.codec.encode_error(request, ProtocolError("call_interrupted"))
    return encode_event(error)
