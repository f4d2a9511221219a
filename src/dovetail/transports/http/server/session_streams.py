"""GET in a session: the general stream, or a stream that is resumed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ....core.principal import Principal
from ....drivers.heartbeat import PING_TIMEOUTS, responds_to_ping
from ....errors import ProtocolError
from ....settings import HttpOptions
from .disconnects import DisconnectWatch
from .event_streams import EventStreamResponse, stream_refusal
from .http_exchange import Exchange, HttpService
from .identity import until_expiry
from .session_calls import SessionCalls
from .sessions import LiveSession, Sessions

if TYPE_CHECKING:
    from .sse_event_log import LoggedStream

SESSION_STREAMS: Final = 8
"""Maximum general streams of one legacy session; a new one closes the oldest."""


class SessionStreams:
    """The event streams that clients open with GET."""

    def __init__(
        self, service: HttpService, options: HttpOptions, calls: SessionCalls, sessions: Sessions
    ) -> None:
        self._service = service
        self._options = options
        self._calls = calls
        self._sessions = sessions
        self._asking: dict[LiveSession, asyncio.Task[None]] = {}

    def validate(self) -> None:
        """Ping the clients of idle sessions on their general streams."""
        if self._options.session_ping_interval is None:
            return
        oldest = self._service.clock() - self._options.session_ping_interval
        for live in self._sessions:
            quiet = live.used <= oldest and live.listened and live not in self._asking
            if quiet and live.log is not None and live.log.general.sinks:
                self._asking[live] = asyncio.get_running_loop().create_task(
                    self._ping(live, live.log.general)
                )

    async def _ping(self, live: LiveSession, general: LoggedStream) -> None:
        try:
            ping = live.outgoing_requests().request("ping", None, PING_TIMEOUTS, write=general.write)
            if await responds_to_ping(ping, errors_count=False):
                live.used = self._service.clock()
                return
            for sink in tuple(general.sinks):
                sink.close_soon()
        finally:
            del self._asking[live]

    async def serve(self, live: LiveSession, exchange: Exchange, principal: Principal | None) -> None:
        """Write the requested stream until it ends or the client disconnects.

        Raises:
            ProtocolError: the stream to resume does not exist, or the session has ended.
            Refusal: too many streams are open.
            StoreError: another process has the stream and cannot be reached.
        """
        owners = [stream.principal for stream in self._calls.streams]
        busy = stream_refusal(self._service.limits.max_streams, principal, owners)
        if busy is not None:
            raise busy
        last = exchange.headers.get("last-event-id")
        events, shared = self._sessions.log(live), self._sessions.shared
        watched = True
        general = last is None or last.startswith(f"{events.general.name}.")
        if general:
            watched = await shared.listen(live, resumed=last is not None)
        history = shared.history
        found = (events.general, list[bytes]()) if last is None else events.find(last)
        if history is not None and last is not None:
            found = await history.missed(live.session, events, last)
        if found is None and last is not None:
            if general and shared.active:
                watched, found = False, (events.general, events.rejoin(last))
            else:
                found = await shared.find_stream(live, last)
        if found is None:
            reason = "Last-Event-ID is not an event of this session, or later events are lost"
            raise ProtocolError("invalid_request", reason)
        if "last-event-id" in exchange.headers:
            for watcher in self._service.admission.watchers:
                watcher.resumed()
        if not watched:
            asyncio.get_running_loop().call_soon(self._service.session_recovered, live.session)
        await self._follow(live, *found, exchange, principal)

    async def _follow(
        self,
        live: LiveSession,
        stream: LoggedStream,
        missed: list[bytes],
        exchange: Exchange,
        principal: Principal | None,
    ) -> None:
        limits, options, shared = self._service.limits, self._options, self._sessions.shared
        # Replayed events may be as large as the event log, and must not exceed the write buffer.
        sink = EventStreamResponse(
            exchange,
            limits.max_write_buffer_bytes + limits.max_replay_bytes_per_session,
            options.write_timeout,
        )
        sink.principal = principal
        general = self._sessions.log(live).general
        shared.stream_opened(live, general=stream is general)
        stream.sinks.append(sink)
        if len(stream.sinks) > SESSION_STREAMS:
            stream.sinks[0].close_soon()
        live.open_streams += 1
        self._calls.streams.add(sink)
        watch = DisconnectWatch(exchange, sink.abandon)
        try:
            if missed:
                sink.write(b"".join(missed))
            elif live.session.revision.primed_streams:
                sink.write(stream.primer(options.sse_retry_ms))
            else:
                sink.write(b":\n\n")  # sends the header block before the first message
            if not stream.over:
                with until_expiry(principal, self._service.clock(), sink.close_soon):
                    await sink.wait()
        finally:
            watch.stop()
            live.open_streams -= 1
            self._sessions.settle(live)
            self._calls.streams.discard(sink)
            stream.detach(sink)
            if stream is general and not stream.sinks:
                shared.vacate(live)
        await sink.finish()
