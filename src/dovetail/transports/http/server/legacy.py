"""Streamable HTTP as 2025-03-26 to 2025-11-25 have it: sessions, a stream for each POST that needs one,
GET, DELETE.

A call runs in the task of its POST. Hanging up does not cancel it (these revisions say so): what it still
has to say goes into the session's log, where GET with ``Last-Event-ID`` finds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET, Struct

from ....core import phases
from ....core.channel import Answer, Call, Cancel, Event, Notice, Reply
from ....core.endpoint import INITIALIZE, Endpoint
from ....errors import DovetailError, ProtocolError, Refusal, RemoteProtocolError
from ....settings import HttpOptions
from ....wire.frames import Frame, is_batch
from ....wire.headers import RoutingHeaders
from .asgi import Receive, Scope, Send, answer, refuse
from .disconnects import Watch
from .ended_sessions import Board
from .event_log import LoggedStream
from .event_streams import EventStream, crowded
from .service import HttpService
from .session_calls import Calls, SessionChannel
from .sessions import HttpSession, Sessions, unknown_session
from .stateless import Stateless, id_of

SESSION_HEADER: Final = b"mcp-session-id"
NEEDS_STREAM: Final = frozenset({"resources/subscribe", "resources/unsubscribe"})
"""Requests that promise something on the general stream; refused where there is none."""
_STREAMS_EACH: Final = 8
"""General streams of one session; the oldest makes room."""


class Legacy:
    """The legacy half of one app."""

    def __init__(
        self,
        service: HttpService,
        options: HttpOptions,
        streams: set[EventStream],
        running: set[Any],
        board: Board | None = None,
    ) -> None:
        self.service = service
        self.options = options
        self.calls = Calls(service, options, streams, running)
        self.sessions = self.calls.sessions = Sessions(service, options, self._entered, board)
        self.stateless = Stateless(service, options, running)
        self._streamless = options.shared or options.json_only

    @property
    def served(self) -> bool:
        """Whether any legacy revision is served at all."""
        return not self.service.admission.revisions[0].modern

    # --- POST -----------------------------------------------------------------------------------------------

    async def post(
        self,
        scope: Scope,
        send: Send,
        headers: Mapping[bytes, bytes],
        routing: RoutingHeaders,
        principal: str | None,
        body: bytes,
        frame: Frame | RemoteProtocolError,
    ) -> None:
        """Answer one POST that is not modern. ``frame`` is an error when the body is not a single message."""
        broken = isinstance(frame, RemoteProtocolError)
        if broken and not is_batch(body):
            await self._refuse_unreadable(send, headers, routing, principal, frame)
            return
        id = headers.get(SESSION_HEADER)
        opening = not broken and frame.method == INITIALIZE
        if id is None or opening:
            if opening and not self.options.stateless:
                await self._open(scope, send, routing, principal, frame)
            elif self.options.stateless:
                await self.stateless.post(scope, send, routing, principal, body, frame)
            elif not broken and (frame.method is UNSET or frame.id is UNSET):
                await self._refuse_nameless(send)
            else:
                # Only a ping is answered; all others are told what is missing.
                await self.stateless.once(scope, send, routing, principal, body)
            return
        entry = self._known(id, principal)
        if not isinstance(entry, HttpSession):
            await self._refuse_session(send, entry, frame)
            return
        version = routing.version
        if version is not None and version != entry.session.revision.name:
            reason = f"MCP-Protocol-Version differs from the negotiated {entry.session.revision.name}"
            error = ProtocolError("invalid_request", reason)
            await refuse(send, self.service.admission, error, id=id_of(frame), status=400)
        elif not broken and frame.method is UNSET and entry.session.codec.dialect.refuse_responses:
            error = ProtocolError("invalid_request", "only requests and notifications are accepted")
            await refuse(send, self.service.admission, error, status=400)
        else:
            try:
                if broken:
                    events = entry.endpoint.receive(body, principal=principal, scope=scope)
                    await self._batch(entry, events, send)
                else:
                    event = entry.endpoint.receive_frame(
                        frame, headers=routing, principal=principal, scope=scope
                    )
                    if type(event) is not Call:
                        await self._settle(entry, event, send)
                    elif self._streamless and event.method in NEEDS_STREAM:
                        await self._refuse_subscribing(entry, event, send)
                    else:
                        await self.calls.run(entry, event, send)
            finally:
                if entry.session.phase == "draining":
                    self._shut_down(entry)

    def _shut_down(self, entry: HttpSession) -> None:
        """The client has sent ``shutdown``: end its session, once nothing runs in it any more."""
        if not entry.running:
            self.sessions.end(entry)

    async def _refuse_unreadable(
        self,
        send: Send,
        headers: Mapping[bytes, bytes],
        routing: RoutingHeaders,
        principal: str | None,
        error: RemoteProtocolError,
    ) -> None:
        """Refuse in the words of the revision the client speaks, as far as it can be told."""
        codec = self.service.admission.codecs.get(routing.version or "")
        id = headers.get(SESSION_HEADER)
        if codec is None and id is not None:
            entry = self._known(id, principal)
            if not isinstance(entry, HttpSession):
                await self._refuse_session(send, entry)
                return
            codec = entry.session.codec
        await refuse(send, self.service.admission, error, id=error.id, status=400, codec=codec)

    def _known(self, id: bytes, principal: str | None) -> HttpSession | DovetailError:
        """The session of a request, or why there is none."""
        if self.options.stateless:
            return unknown_session()
        try:
            return self.sessions.find(id.decode("latin-1"), principal) or unknown_session()
        except Refusal as error:
            return error

    async def _refuse_nameless(self, send: Send) -> None:
        error = ProtocolError("invalid_request", "Mcp-Session-Id is missing")
        await refuse(send, self.service.admission, error, status=400)

    async def _refuse_session(
        self, send: Send, error: DovetailError, frame: Frame | RemoteProtocolError | None = None
    ) -> None:
        status = 503 if isinstance(error, Refusal) else 404
        await refuse(send, self.service.admission, error, id=id_of(frame), status=status)

    async def _settle(self, entry: HttpSession, event: Event | list[Event], send: Send) -> None:
        """Take what came in one message that is no call."""
        for one in event if isinstance(event, list) else [event]:
            if isinstance(one, Reply):
                if isinstance(event, list):
                    continue  # a batch that this cancellation has completed; its own POST answers it
                await answer(send, one.status, one.data)
                return
            if not self._take(entry, one):
                error = ProtocolError("invalid_request", "no request of ours waits for this answer")
                await refuse(send, self.service.admission, error, status=400)
                return
        await answer(send, 202)

    def _take(self, entry: HttpSession, event: Event) -> bool:
        """Take an event that needs no reply; False when it is one we do not accept."""
        match event:
            case Answer():
                entry.answered(event)
            case Notice():
                self.service.take_note(event)
            case Cancel():
                entry.cancel(event.call.id)
            case _:
                return getattr(event, "kind", "") != "unknown_answer"
        return True

    async def _open(
        self, scope: Scope, send: Send, routing: RoutingHeaders, principal: str | None, frame: Any
    ) -> None:
        """A new session: the id goes out with the result of ``initialize``."""
        endpoint = Endpoint(self.service.admission, self.service.limits, principal=principal)
        event = endpoint.receive_frame(frame, headers=routing, principal=principal, scope=scope)
        if isinstance(event, Reply):
            await answer(send, event.status, event.data)
            return
        if not isinstance(event, Call) or event.session is None:
            await answer(send, 202)
            return
        try:
            entry = self.sessions.open(event.session, endpoint)
        except Refusal as error:
            await refuse(send, self.service.admission, error, id=event.id, status=503)
            return
        except ProtocolError as error:
            await answer(send, 200, endpoint.send_error(event, error) or b"")
            return
        await self.calls.run(entry, event, send, [(SESSION_HEADER, entry.id.encode())])
        if self.options.shared and entry.session.phase == "negotiating":
            # ``initialized`` may go to another worker.
            phases.advance(entry.session, "initialized")

    def _entered(self, entry: HttpSession) -> None:
        """A session has entered memory: from now on it can be told what belongs to no call."""

        def notify(method: str, params: Struct | None) -> None:
            # A client that never opened the general stream misses nothing there.
            if entry.listened:
                data = entry.endpoint.send_notification(method, params)
                if data is not None:
                    self.calls.log(entry).general.write(data)

        entry.session.notify = notify

    async def _refuse_subscribing(self, entry: HttpSession, call: Call, send: Send) -> None:
        what = "answers with JSON only" if self.options.json_only else "runs in several processes"
        error = ProtocolError("unsupported_operation", f"this server {what} and cannot tell of updates")
        await answer(send, 200, entry.endpoint.send_error(call, error) or b"")

    async def _batch(self, entry: HttpSession, events: Event | list[Event] | None, send: Send) -> None:
        """2025-03-26: the calls of one array run together, their replies leave together."""
        if not isinstance(events, list):
            if events is None:
                await answer(send, 202)
            else:
                await self._settle(entry, events, send)
            return
        calls = [event for event in events if isinstance(event, Call)]
        whole = next((event.data for event in events if isinstance(event, Reply)), None)
        for event in events:
            if not isinstance(event, Call | Reply):
                self._take(entry, event)
        channel = SessionChannel(self.calls, entry, send, None)
        if calls:
            members = [SessionChannel(self.calls, entry, send, None, call, channel) for call in calls]
            await asyncio.gather(
                *(self.calls.answer(entry, call, one) for call, one in zip(calls, members, strict=True))
            )
            whole = calls[0].batch.finished()
        if channel.stream is not None:
            await channel.conclude(whole)
        else:
            await answer(send, 202 if whole is None else 200, whole or b"")

    # --- GET and DELETE -------------------------------------------------------------------------------------

    async def get(
        self, receive: Receive, send: Send, headers: Mapping[bytes, bytes], principal: str | None
    ) -> None:
        """Open the general stream, or go on with one that was interrupted."""
        entry = await self._named(send, headers, principal)
        if entry is None:
            return
        admission = self.service.admission
        log = self.calls.log(entry)
        last = headers.get(b"last-event-id")
        owners = [stream.principal for stream in self.calls.streams]
        error = crowded(self.service.limits.streams, principal, owners)
        found = (log.general, list[bytes]()) if last is None else log.find(last.decode("latin-1"))
        if found is None:
            reason = "Last-Event-ID is not an event of this session, or what followed it is lost"
            await refuse(send, admission, ProtocolError("invalid_request", reason), status=400)
        elif error is not None:
            await refuse(send, admission, error, status=503)
        else:
            await self._follow(entry, *found, receive, send)

    async def _follow(
        self, entry: HttpSession, stream: LoggedStream, missed: list[bytes], receive: Receive, send: Send
    ) -> None:
        limits, options = self.service.limits, self.options
        # What was missed may be as much as the log holds; it must not count as unread.
        sink = EventStream(send, limits.write_buffer + limits.event_bytes, patience=options.write_timeout)
        sink.principal = entry.session.principal
        entry.listened = entry.listened or stream is entry.log.general  # pyright: ignore
        stream.attach(sink)
        if len(stream.sinks) > _STREAMS_EACH:
            stream.sinks[0].close_soon()
        entry.open_streams += 1
        self.calls.streams.add(sink)
        watch = Watch(receive, sink.abandon)
        try:
            if missed:
                sink.write(b"".join(missed))
            elif self.calls.primes(entry):
                stream.prime(options.retry)
            else:
                sink.write(b":\n\n")  # the head of the response must reach the client before any message
            if not stream.over:
                await sink.wait()
        finally:
            watch.stop()
            entry.open_streams -= 1
            self.sessions.settle(entry)
            self.calls.streams.discard(sink)
            stream.detach(sink)
        await sink.finish()

    async def delete(self, send: Send, headers: Mapping[bytes, bytes], principal: str | None) -> None:
        """End the session: its id is unknown from now on."""
        entry = await self._named(send, headers, principal)
        if entry is not None:
            self.sessions.end(entry)
            await answer(send, 204)

    async def _named(
        self, send: Send, headers: Mapping[bytes, bytes], principal: str | None
    ) -> HttpSession | None:
        id = headers.get(SESSION_HEADER)
        if id is None:
            await self._refuse_nameless(send)
            return None
        entry = self._known(id, principal)
        if isinstance(entry, HttpSession):
            return entry
        await self._refuse_session(send, entry)
        return None
