"""Stateless Streamable HTTP of 2026-07-28: one POST, one response, no session.

The call runs in the task of its request. The response is JSON, or an event stream from the first notification
on. A disconnect cancels the call.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ....core.channel import Call, PlainChannel, ServerRequestsNotSupported
from ....core.endpoint import LISTEN
from ....core.limits import UNCOUNTED_BYTES
from ....core.principal import Principal
from ....drivers.run import Outcome, status_of
from ....errors import ProtocolError, Refusal
from .body_reader import Work
from .disconnects import DisconnectWatch
from .event_streams import EventStreamResponse, stream_refusal
from .http_exchange import Exchange, Headers, refuse, retry_after, unsent
from .identity import until_expiry

if TYPE_CHECKING:
    from .app_state import AppParts


class StatelessHandler:
    """Serves the modern revisions of one app."""

    def __init__(self, parts: AppParts) -> None:
        self.service = service = parts.service
        self.streams = parts.streams
        self.listening: set[Work] = set()
        self.disconnects = parts.disconnects
        self.json_only = parts.options.json_only
        self._runner = parts.runner
        self._identity = parts.identity
        self._limit = service.limits.max_write_buffer_bytes
        self._most = service.limits.max_streams
        self.largest_event = service.limits.on_events().max_response_bytes
        self._patience = parts.options.write_timeout
        self._buffered = parts.buffered

    async def serve(self, call: Call, exchange: Exchange, task: Work) -> None:
        """Serve one admitted call; ``task`` is the current task."""
        if call.method == LISTEN:
            await self._listen(call, exchange, task)
            return
        disconnects = self.disconnects
        channel = StatelessChannel(call, exchange, self)
        disconnects.begin(exchange, task, (call,))
        try:
            data, error = await self._runner.run(call, channel)
        finally:
            disconnects.end(exchange)
        if data is not None and len(data) > UNCOUNTED_BYTES and error is None:
            await self._complete(channel, data)
        elif channel.stream is not None:
            await channel.stream.end(data)
        elif error is None and data is not None:
            if (waiting := exchange.reply(data)) is not None:
                await waiting
        else:
            await self._reply(exchange, call, (data, error))

    async def _complete(self, channel: StatelessChannel, data: bytes) -> None:
        """Respond with a large result, unless too many bytes are buffered already."""
        call, exchange = channel.call, channel.exchange
        with unsent(exchange, self._buffered, len(data)) as full:
            if channel.stream is not None:
                await channel.stream.end(data if full is None else call.codec.encode_error(call.id, full))
            elif full is not None:
                await refuse(exchange, self.service.admission, full, id=call.id, status=503)
            elif (waiting := exchange.reply(data)) is not None:
                await waiting

    async def _reply(self, exchange: Exchange, call: Call, outcome: Outcome) -> None:
        """Respond with JSON, unless the client has disconnected."""
        data, error = outcome
        if data is None:
            return
        status = status_of(self.service.admission, call, error)
        headers: Headers = ()
        if error is not None:
            headers = (*retry_after(error, status), *self._identity.step_up(error, exchange))
        await exchange.answer(status, data, headers)

    def stream(self, exchange: Exchange) -> EventStreamResponse:
        return EventStreamResponse(exchange, self._limit, self._patience)

    async def _listen(self, call: Call, exchange: Exchange, task: Work) -> None:
        """Serve ``subscriptions/listen``: send heartbeats, count the stream, and complete it at shutdown."""
        refusal = self._listening_problem(call.principal)
        if refusal is not None:
            # A full stream limit is temporary, so it has the status of an overloaded server.
            status = 503 if isinstance(refusal, Refusal) else None
            admission = self.service.admission
            await refuse(exchange, admission, refusal, id=call.id, status=status, codec=call.codec)
            return
        stream = self.stream(exchange)
        stream.principal = call.principal

        # The client ends its subscription this way.
        gone = partial(self.disconnects.cancel, exchange, task, (call,))
        watch = DisconnectWatch(exchange, gone)
        stream.on_abandon = watch.found
        self.streams.add(stream)
        self.listening.add(task)
        try:
            with until_expiry(call.principal, self.service.clock(), watch.found):
                data, error = await self._runner.run(call, StatelessChannel(call, exchange, self, stream))
        finally:
            watch.stop()
            self.disconnects.leave(exchange)
            stream.on_abandon = None
            self.streams.discard(stream)
            self.listening.discard(task)
        if call.cancelled:
            stream.abandon()
        if stream.started or call.cancelled:
            await stream.end(data)
        else:
            await self._reply(exchange, call, (data, error))

    def _listening_problem(self, principal: Principal | None) -> ProtocolError | Refusal | None:
        if self.json_only:
            return ProtocolError(
                "method_not_found", "this server responds with JSON only and cannot send change notifications"
            )
        return stream_refusal(self._most, principal, [stream.principal for stream in self.streams])


class StatelessChannel(PlainChannel, Struct, eq=False):
    """Sends messages of a call before its result. The stream is created with the first message."""

    call: Call
    exchange: Exchange
    modern: StatelessHandler
    stream: EventStreamResponse | None = None

    def notify(self, method: str, params: Struct | None) -> None:
        if self.call.cancelled or self.modern.json_only:
            return
        data = self.call.codec.encode_notification(method, params, self.modern.largest_event)
        if self.stream is None:
            self.stream = self.modern.stream(self.exchange)
            self.stream.on_abandon = partial(self.modern.disconnects.lost, self.exchange)
        if self.stream.closed:
            self.modern.service.admission.undelivered(method)
        self.stream.notify(data)

    @property
    def streamed(self) -> bool:
        return self.stream is not None

    @property
    def disconnected(self) -> bool:
        return self.exchange.lost

    async def request(self, method: str, params: Struct) -> Any:
        raise ServerRequestsNotSupported

    async def drain(self) -> None:
        if self.stream is not None:
            await self.stream.drain()
