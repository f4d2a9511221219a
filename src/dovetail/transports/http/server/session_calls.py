"""One call in a session: its channel to the client while it runs, and its response.

The response to a POST is JSON, or an event stream if the call sends a message before its result. These events are also
recorded in the event log of the session. In these revisions a disconnect does not cancel a call.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ....core.channel import Call, PlainChannel, ServerRequestsNotSupported
from ....core.limits import UNCOUNTED_BYTES
from ....drivers.run import Outcome
from ....errors import DovetailError, RequestTimeout, TransportError
from ....settings import Timeouts
from .body_reader import Work
from .event_streams import EventStreamResponse
from .http_exchange import Exchange, Headers, refuse, retry_after, unsent
from .sessions import LiveSession, Sessions

if TYPE_CHECKING:
    from .app_state import AppParts
    from .sse_event_log import LoggedStream


class SessionCalls:
    """Runs the calls of all sessions of one app."""

    def __init__(self, parts: AppParts, sessions: Sessions, running: set[Work]) -> None:
        self.service = parts.service
        self.options = parts.options
        self.streams = parts.streams
        self.disconnects = parts.disconnects
        self.buffered = parts.buffered
        self.sessions = sessions
        self.answer_limits = Timeouts(
            connect=None, idle=None, total=self.service.limits.client_response_timeout
        )
        self._runner = parts.runner
        self._running = running
        self._identity = parts.identity

    async def run(self, channel: SessionChannel, call: Call, task: Work | None = None) -> Outcome:
        """Run one call in the task of its POST, and respond. The results of a batch are sent later, together."""
        if task is None:
            task = asyncio.current_task()
            assert task is not None
        live = channel.live
        live.running[call.id] = task
        self._running.add(task)
        disconnects, exchange = self.disconnects, channel.exchange
        if channel.batch_channel is None:
            disconnects.begin(exchange, task, (call,))
        try:
            if live.cancelled_calls.tasks and (error := live.cancelled_calls.refusal()) is not None:
                data = live.endpoint.send_error(call, error)
            else:
                data, error = await self._runner.run(call, channel, live.endpoint)
        finally:
            if live.running.get(call.id) is task:
                del live.running[call.id]
            else:  # it was cancelled, and another one may have taken its id
                live.cancelled_calls.finished(task)
            self._running.discard(task)
            if channel.batch_channel is None:
                disconnects.end(exchange)
                if live.at_work or live.session.phase == "draining":
                    self.sessions.settle(live)
        if channel.batch_channel is not None:
            return data, error
        if channel.stream is not None and (data is None or len(data) <= UNCOUNTED_BYTES):
            await channel.conclude(data)
        elif error is None and data is not None and len(data) <= UNCOUNTED_BYTES and not channel.headers:
            if (waiting := exchange.reply(data)) is not None:
                await waiting
        else:
            await self._complete(channel, call, data, error)
        return data, error

    async def _complete(
        self, channel: SessionChannel, call: Call, data: bytes | None, error: DovetailError | None
    ) -> None:
        exchange = channel.exchange
        if data is None:
            await exchange.answer(202)  # cancelled, without a result
        elif error is not None and channel.stream is None:
            await self._answer(channel, call, data, error)
        else:
            with unsent(exchange, self.buffered, len(data)) as full:
                if channel.stream is not None:
                    await channel.conclude(data if full is None else call.codec.encode_error(call.id, full))
                elif full is None:
                    await exchange.answer(200, data, channel.headers)
                else:
                    await refuse(exchange, self.service.admission, full, id=call.id, codec=call.codec)

    async def _answer(self, channel: SessionChannel, call: Call, data: bytes, error: DovetailError) -> None:
        status = self.service.admission.status_of(error, call.codec)
        headers = (
            *channel.headers,
            *self._identity.step_up(error, channel.exchange),
            *retry_after(error, status),
        )
        await channel.exchange.answer(status, data, headers)


class SessionChannel(PlainChannel, Struct, eq=False):
    """The channel to the client for one POST."""

    calls: SessionCalls
    live: LiveSession
    exchange: Exchange
    call: Call | None = None
    headers: Headers = ()
    batch_channel: SessionChannel | None = None
    """The channel of the whole batch, for a call of a batch."""
    stream: LoggedStream | None = None
    sink: EventStreamResponse | None = None

    def notify(self, method: str, params: Struct | None) -> None:
        if self.calls.options.json_only:
            return
        data = self.live.endpoint.send_notification(method, params, call=self.call)
        if data is not None:
            self.open().write(data)

    @property
    def streamed(self) -> bool:
        return (self.batch_channel or self).stream is not None

    async def request(self, method: str, params: Struct) -> Any:
        options = self.calls.options
        if options.json_only:
            raise ServerRequestsNotSupported(
                "requests to the client need an event stream; this server responds with JSON only"
            )
        live = self.live
        if live.session.codec.dialect.refuse_responses:
            raise ServerRequestsNotSupported(
                "this dialect accepts no responses of clients, so the server cannot send requests"
            )
        asking = live.requests or live.outgoing_requests()
        try:
            return await asking.request(method, params, self.calls.answer_limits, write=self._ask)
        except RequestTimeout:
            raise TransportError("the client did not respond in time", cause="idle") from None

    def _ask(self, message: bytes) -> None:
        """Write a request at once: the call waits for its response, so nothing follows that could be sent with it."""
        here = self.batch_channel or self
        stream = here.open()
        if here.sink in stream.sinks[-1:]:
            here.sink.write(stream.record(message), now=True)
        else:
            stream.write(message)

    async def drain(self) -> None:
        if self.batch_channel is not None:
            await self.batch_channel.drain()
        elif self.stream is not None and self.stream.sinks:
            await self.stream.sinks[-1].drain()

    async def close_stream(self) -> None:
        """End the response but not the call (2025-11-25). The client resumes the stream."""
        if (
            self.calls.options.json_only
            or self.batch_channel is not None
            or not self.live.session.revision.primed_streams
        ):
            return
        stream = self.open()
        self.calls.disconnects.requests.pop(self.exchange, None)
        self.calls.disconnects.ignore(self.exchange)  # the server closes this response
        for sink in list(stream.sinks):
            stream.detach(sink)
            self.calls.streams.discard(sink)
            await sink.finish()

    def open(self) -> LoggedStream:
        """The event stream of this POST; opened with its first message."""
        if self.batch_channel is not None:
            return self.batch_channel.open()
        if self.stream is None:
            calls, live = self.calls, self.live
            self.stream = (live.log or calls.sessions.log(live)).open(
                None if self.call is None else self.call.id
            )
            limit, patience = calls.service.limits.max_write_buffer_bytes, calls.options.write_timeout
            self.sink = EventStreamResponse(
                self.exchange, limit, patience, self.headers, live.session.principal
            )
            self.stream.sinks.append(self.sink)
            calls.streams.add(self.sink)
            if live.session.revision.primed_streams:
                self.sink.begin(self.stream.primer(calls.options.sse_retry_ms))
        return self.stream

    async def conclude(self, data: bytes | None) -> None:
        """End the stream, with the response as its last event if there is one."""
        stream, sink, log = self.stream, self.sink, self.live.log
        assert stream is not None
        assert sink is not None
        last = None if data is None else stream.record(data)
        if log is not None:
            log.finish(stream)
        self.calls.streams.discard(sink)
        # The event log references the stream. It must not keep the responses and their exchanges alive.
        sinks, stream.sinks = stream.sinks, []
        for one in sinks:
            await one.finish(last if one is sinks[-1] else None)
        if sink not in sinks:
            await sink.finish()
