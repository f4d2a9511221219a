"""Streamable HTTP with sessions, revisions 2025-03-26 to 2025-11-25: POST, GET and DELETE.

A call runs in the task of its POST. In these revisions a disconnect does not cancel it: its later messages are stored
in the event log of the session, and the client gets them through GET with ``Last-Event-ID``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import UNSET, Struct

from ....core.channel import Call, Cancel, Event, Notice, PeerResponse, Reply, Session, Violation
from ....core.endpoint import INITIALIZE
from ....core.metadata import is_modern
from ....core.principal import Principal
from ....core.subscription_hub import REFRESHED
from ....drivers.exchange import NULL_WRITER
from ....drivers.exchange import exchange as answer_once
from ....drivers.run import Outcome
from ....errors import NAME_ECHO, DovetailError, ProtocolError, Refusal, RemoteProtocolError
from ....model import ClientCapabilities
from ....stores.base import StoreError
from ....wire.frames import Frame, RequestId, is_batch
from ....wire.headers import duplicate_error
from ....wire.revisions import ASSUMED, BY_NAME
from .body_reader import Work
from .ended_sessions import EndedSessions
from .event_streams import EventStreamResponse
from .http_exchange import Exchange, PostedMessage, RequestHeaders, refuse, retry_after, unsent
from .session_calls import SessionCalls, SessionChannel
from .sessions import LiveSession, Sessions

if TYPE_CHECKING:
    from .app_state import AppParts
    from .session_streams import SessionStreams

Done = TypeVar("Done")
SESSION_HEADER: Final = "mcp-session-id"
NEEDS_STREAM: Final = frozenset({"resources/subscribe", "resources/unsubscribe"})
"""Requests whose effect is notifications on the general stream. A server without event streams refuses them."""


class SessionHandler:
    """Serves the revisions that have sessions."""

    def __init__(self, parts: AppParts, ended: EndedSessions | None = None) -> None:
        self.service = service = parts.service
        self.options = options = parts.options
        self.running: set[Work] = set()
        """The tasks of all calls in flight."""
        self.sessions = Sessions(service, options, self._entered, ended)
        self.calls = SessionCalls(parts, self.sessions, self.running)
        self._runner = parts.runner
        self._identity = parts.identity
        if service.store is not None:
            from ....cluster.shared_sessions import SharedSessions  # a server without a store does without it

            self.sessions.shared = SharedSessions(service.store, service, options, self.sessions)
        self.shared = self.sessions.shared

    @property
    def served(self) -> bool:
        """Whether the server supports a revision with sessions."""
        return not self.service.admission.revisions[0].modern

    # --- POST -----------------------------------------------------------------------------------------------

    def takes(self, frame: Frame, head: RequestHeaders) -> bool:
        """Whether a message belongs to a revision with sessions although its version header names a later one."""
        return not is_modern(frame.params) and (frame.method == INITIALIZE or SESSION_HEADER in head.headers)

    def post(self, posted: PostedMessage) -> Coroutine[Any, Any, object]:
        """Return the coroutine that answers a POST of a revision with sessions."""
        frame, exchange = posted.frame, posted.exchange
        id = exchange.headers.get(SESSION_HEADER)
        if type(frame) is not Frame or id is None or frame.method == INITIALIZE or self.options.stateless:
            return self._unusual(posted, id)
        live = self.sessions.find(id, posted.principal)
        if not isinstance(live, LiveSession):
            if self.shared.may_restore(id):
                return self._restored(posted, id)
            return self._refuse_session(exchange, live, frame)
        problem = _problem(posted, live.session, self.service.admission.is_check_disabled)
        if problem is not None:
            return refuse(exchange, self.service.admission, problem, id=_id_of(frame), status=400)
        event = live.endpoint.receive_frame(
            frame, headers=posted.routing, principal=posted.principal, scope=exchange.scope
        )
        if type(event) is PeerResponse:
            (live.requests or live.outgoing_requests()).answered(event)
            return exchange.answer(202)
        if type(event) is not Call:
            return self._settle(live, event, posted)
        if self.options.json_only and event.method in NEEDS_STREAM:
            return self._refuse_subscribing(live, event, exchange)
        return self.calls.run(SessionChannel(self.calls, live, exchange, event), event, posted.task)

    def _unusual(self, posted: PostedMessage, id: str | None) -> Coroutine[Any, Any, object]:
        """Answer a POST that opens a session, belongs to none, is a batch, or is not valid JSON-RPC."""
        frame, exchange = posted.frame, posted.exchange
        opens = isinstance(frame, Frame) and frame.method == INITIALIZE
        if posted.routing.duplicated:
            return refuse(exchange, self.service.admission, duplicate_error(posted.routing), status=400)
        if isinstance(frame, RemoteProtocolError) and not is_batch(posted.body):
            return self._refuse_unreadable(posted, frame)
        if self.options.stateless:
            return self._stateless(posted)
        if opens:
            return self._open(posted)
        if id is None:
            return self._without_session(posted)
        if self.shared.may_restore(id):
            return self._restored(posted, id)
        live = self.sessions.find(id, posted.principal)
        if not isinstance(live, LiveSession):
            return self._refuse_session(exchange, live)
        problem = _problem(posted, live.session, self.service.admission.is_check_disabled)
        if problem is not None:
            return refuse(exchange, self.service.admission, problem, status=400)
        return self._batch(live, posted)

    async def _restored(self, posted: PostedMessage, id: str) -> None:
        """Answer a POST to a session that is not in memory; it may be in the store."""
        live = await self.shared.find(id, posted.principal)
        if isinstance(live, LiveSession):
            await self.post(posted)
        else:
            await self._refuse_session(posted.exchange, live, posted.frame)

    async def _without_session(self, posted: PostedMessage) -> None:
        """Answer a message without a session id: only ping is allowed, the others get an error."""
        frame = posted.frame
        if isinstance(frame, Frame) and (frame.method is UNSET or frame.id is UNSET):
            await self._refuse_without_session(posted.exchange)
        else:
            await self._once(posted, None)

    async def _stateless(self, posted: PostedMessage) -> None:
        """Answer a POST to a stateless server, in the revision of its header or in the default one."""
        admission, frame = self.service.admission, posted.frame
        if isinstance(frame, Frame) and frame.method == INITIALIZE:
            await self._once(posted, None)
            return
        name = posted.routing.version or ASSUMED.name
        if BY_NAME[name] not in admission.revisions:
            error = admission.unsupported(name)
            await refuse(posted.exchange, admission, error, id=_id_of(frame), status=400)
            return
        session = Session(
            revision=BY_NAME[name],
            codec=admission.codecs[name],
            capabilities=ClientCapabilities(),
            principal=posted.principal,
            phase="ready",
        )
        await self._once(posted, session)

    async def _once(self, posted: PostedMessage, session: Session | None) -> None:
        """Answer a POST without a session. Its calls cannot send requests to the client."""
        limits, options = self.service.limits, self.options
        stream = EventStreamResponse(posted.exchange, limits.max_write_buffer_bytes, options.write_timeout)
        failures, calls = list[DovetailError](), list[Call]()
        answering = answer_once(
            self.service,
            posted.body,
            session=session,
            headers=posted.routing,
            principal=posted.principal,
            scope=posted.exchange.scope,
            writer=NULL_WRITER if options.json_only else stream,
            runner=self._runner,
            begun=calls,
            failed=failures.append,
        )
        status, data = await self._watched(posted.exchange, calls, answering) or (202, None)
        exchange = posted.exchange
        with unsent(exchange, self.calls.buffered, len(data or b"")) as full:
            if full is not None:
                refused = self.service.admission.refuse(full, _id_of(posted.frame), session)
                status, data = refused.status, refused.body
                failures.append(full)
            if stream.started:
                await stream.end(data)
                return
            headers = [line for error in failures for line in self._identity.step_up(error, exchange)]
            headers += [line for error in failures for line in retry_after(error, status)]
            await exchange.answer(status, data or b"", headers)

    async def _refuse_unreadable(self, posted: PostedMessage, error: RemoteProtocolError) -> None:
        """Refuse a message that cannot be decoded, in the revision of the client if it is known."""
        codec = self.service.admission.codecs.get(posted.routing.version or "")
        id = posted.exchange.headers.get(SESSION_HEADER)
        if codec is None and id is not None and not self.options.stateless:
            live = await self.shared.find(id, posted.principal)
            if not isinstance(live, LiveSession):
                await self._refuse_session(posted.exchange, live)
                return
            codec = live.session.codec
        await refuse(posted.exchange, self.service.admission, error, status=400, codec=codec)

    async def _refuse_without_session(self, exchange: Exchange) -> None:
        error = ProtocolError("invalid_request", "Mcp-Session-Id is missing")
        await refuse(exchange, self.service.admission, error, status=400)

    async def _refuse_session(
        self, exchange: Exchange, error: DovetailError, frame: Frame | RemoteProtocolError | None = None
    ) -> None:
        status = 503 if isinstance(error, Refusal | StoreError) else 404
        await refuse(exchange, self.service.admission, error, id=_id_of(frame), status=status)

    async def _settle(self, live: LiveSession, event: Event | list[Event], posted: PostedMessage) -> None:
        """Handle a message that is not a call: a response, a cancellation or a notification."""
        exchange, kind = posted.exchange, event.kind if isinstance(event, Violation) else ""
        try:
            if kind == "unknown_answer" and await self.shared.forward_response(
                live, posted.frame, posted.body
            ):
                kind, event = "", []
            elif kind == "unknown_cancel":
                self.shared.cancel(live, posted.body)
        except StoreError as error:
            await refuse(exchange, self.service.admission, error, status=503)
            return
        if isinstance(event, Reply):
            await exchange.answer(event.status, event.data)
        elif kind == "unknown_answer":
            error = ProtocolError("invalid_request", "no request of this server waits for this response")
            await refuse(exchange, self.service.admission, error, status=400)
        else:
            # A list holds a cancellation and the batch that it completes. The POST of the batch answers that.
            self._take(live, event if isinstance(event, list) else [event])
            self.sessions.settle(live)
            try:
                # ``initialized`` changes the phase of the session: other processes must see it.
                await self.shared.save_phase(live)
            except DovetailError as error:
                await self._refuse_session(exchange, error)
                return
            await exchange.answer(202)

    def _take(self, live: LiveSession, events: list[Event]) -> None:
        """Handle the messages of a batch that need no reply."""
        for event in events:
            if isinstance(event, PeerResponse):
                live.outgoing_requests().answered(event)
            elif isinstance(event, Notice):
                self.service.receive_notification(event)
            elif isinstance(event, Cancel):
                live.cancel(event.call.id)

    async def _open(self, posted: PostedMessage) -> None:
        """Open a session. The response to ``initialize`` carries its id; an id in the request is ignored."""
        frame, exchange, principal = posted.frame, posted.exchange, posted.principal
        assert isinstance(frame, Frame)
        endpoint = self.sessions.endpoint(principal)
        event = endpoint.receive_frame(
            frame, headers=posted.routing, principal=principal, scope=exchange.scope
        )
        if isinstance(event, Reply):
            await exchange.answer(event.status, event.data)
            return
        if not isinstance(event, Call) or event.session is None:
            await exchange.answer(202)
            return
        try:
            live = self.sessions.open(event.session, endpoint)
            await self.shared.open(live, exchange.scope)
        except (Refusal, StoreError) as error:
            await refuse(exchange, self.service.admission, error, id=event.id, status=503)
            return
        channel = SessionChannel(self.calls, live, exchange, event, ((SESSION_HEADER, live.id),))
        _, failure = await self.calls.run(channel, event, posted.task)
        if failure is not None:
            self.sessions.finish(live)

    def _entered(self, live: LiveSession) -> None:
        """Let a session in memory receive notifications that belong to no call."""

        shared = self.shared

        def notify(method: str, params: Struct | None) -> None:
            # A client that never opened the general stream expects no events there.
            if live.listened or shared.active:
                data = live.endpoint.send_notification(method, params)
                if data is not None and live.listened:
                    # `SubscriptionHub.refresh` sends these again if the session moves to another process.
                    self.sessions.log(live).general.write(data, lasting=method not in REFRESHED)
                elif data is not None:
                    shared.notify(live, data)

        live.session.notify = notify
        shared.added(live)

    async def _refuse_subscribing(self, live: LiveSession, call: Call, exchange: Exchange) -> None:
        reason = "this server responds with JSON only and cannot send updates"
        error = ProtocolError("unsupported_operation", reason)
        await exchange.answer(200, live.endpoint.send_error(call, error) or b"")

    async def _batch(self, live: LiveSession, posted: PostedMessage) -> None:
        """Answer a batch (2025-03-26): its calls run concurrently, and one response holds all their results."""
        exchange, body, principal = posted.exchange, posted.body, posted.principal
        events = live.endpoint.receive(body, principal=principal, scope=exchange.scope)
        if events is None:
            await exchange.answer(202)
            return
        if not isinstance(events, list):
            await self._settle(live, events, posted)
            return
        await self.shared.forward_batch(live, events, posted.body)
        calls = [event for event in events if isinstance(event, Call)]
        answer: bytes | None = next((event.data for event in events if isinstance(event, Reply)), None)
        self._take(live, events)
        channel = SessionChannel(self.calls, live, exchange)
        if calls:

            def run(call: Call) -> Coroutine[Any, Any, Outcome]:
                return self.calls.run(
                    SessionChannel(self.calls, live, exchange, call, batch_channel=channel), call
                )

            await self._watched(exchange, calls, self._runner.run_batch(calls, run))
            answer = calls[0].batch.encoded
        self.sessions.settle(live)
        if channel.stream is not None:
            await channel.conclude(answer)
            return
        with unsent(exchange, self.calls.buffered, len(answer or b"")) as full:
            if full is None:
                await exchange.answer(202 if answer is None else 200, answer or b"")
            else:
                await refuse(exchange, self.service.admission, full, status=503)

    async def _watched(self, exchange: Exchange, calls: list[Call], work: Awaitable[Done]) -> Done | None:
        """Return the result of ``work``; None if it was cancelled because too many disconnected calls continue."""
        disconnects, task = self.calls.disconnects, asyncio.current_task()
        assert task is not None
        disconnects.begin(exchange, task, calls)
        try:
            return await work
        except asyncio.CancelledError:
            if not calls or not all(call.cancelled for call in calls):
                raise
            task.uncancel()
        finally:
            disconnects.end(exchange)

    # --- GET and DELETE -------------------------------------------------------------------------------------

    async def get(self, exchange: Exchange, principal: Principal | None) -> None:
        """Open the general stream, or resume a stream."""
        live = await self._named(exchange, principal)
        if live is None:
            return
        try:
            await self._streams.serve(live, exchange, principal)
        except (ProtocolError, Refusal, StoreError) as error:
            gone = error.kind in ("session_not_found", "session_expired")
            status = 404 if gone else 400 if isinstance(error, ProtocolError) else 503
            await refuse(exchange, self.service.admission, error, status=status)

    @cached_property
    def _streams(self) -> SessionStreams:
        from .session_streams import SessionStreams  # loaded with the first GET

        return SessionStreams(self.service, self.options, self.calls, self.sessions)

    def validate_streams(self) -> None:
        """Ping the clients of idle sessions on their general streams."""
        if "_streams" in vars(self):
            self._streams.validate()

    async def delete(self, exchange: Exchange, principal: Principal | None) -> None:
        """End the session. Its id is unknown from now on."""
        live = await self._named(exchange, principal)
        if live is None:
            return
        try:
            await self.shared.end(live)
        except StoreError as error:
            await self._refuse_session(exchange, error)
            return
        await exchange.answer(204)

    async def _named(self, exchange: Exchange, principal: Principal | None) -> LiveSession | None:
        id = exchange.headers.get(SESSION_HEADER)
        if id is None:
            await self._refuse_without_session(exchange)
            return None
        live = await self.shared.find(id, principal)
        if isinstance(live, LiveSession):
            return live
        await self._refuse_session(exchange, live)
        return None


def _id_of(frame: Frame | RemoteProtocolError | None) -> RequestId | None:
    """The id of a request; None for any other message."""
    if not isinstance(frame, Frame) or frame.method is UNSET or frame.id is UNSET:
        return None
    return frame.id


def _problem(posted: PostedMessage, session: Session, bends: Callable[[str], bool]) -> ProtocolError | None:
    """Why a message does not fit this session, or None."""
    version, frame = posted.routing.version, posted.frame
    if posted.routing.duplicated:
        return duplicate_error(posted.routing)
    if version is not None and version != (name := session.revision.name):
        if not bends("version-not-negotiated"):
            text = f"MCP-Protocol-Version differs from the negotiated {name}: {version[:NAME_ECHO]!r}"
            return ProtocolError("invalid_request", text)
        posted.routing.version = None
    if isinstance(frame, Frame) and frame.method is UNSET and session.codec.dialect.refuse_responses:
        return ProtocolError("invalid_request", "only requests and notifications are accepted")
    return None
