"""One call in a legacy session: the way back while it runs, and how its answer leaves.

The answer to a POST is JSON unless something is said before the result; then it is an event stream, whose
events are also kept in the session's log. Hanging up does not cancel a call of these revisions.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct

from ....core.channel import Call, NoBackChannel, PlainChannel
from ....drivers.run import mask
from ....errors import DovetailError, Refusal, TransportError
from ....settings import HttpOptions, Limits
from ..host.whole import WHOLE
from .asgi import JSON_TYPE, Headers, Send, answer
from .event_log import EventLog, LoggedStream
from .event_streams import EventStream
from .service import HttpService
from .sessions import HttpSession, Sessions


class Calls:
    """What the calls of all legacy sessions of one app share."""

    def __init__(
        self, service: HttpService, options: HttpOptions, streams: set[EventStream], running: set[Any]
    ) -> None:
        self.service = service
        self.options = options
        self.limits: Limits = service.limits
        self.streams = streams
        """Every open event stream of the app; `Life` keeps them alive and ends them."""
        self.running: set[asyncio.Task[Any]] = running
        """Every task of the app that works on a call."""
        self.draining = False
        """Calls that are cancelled now are cancelled because the server shuts down, and are told so."""
        self.sessions: Sessions

    def log(self, entry: HttpSession) -> EventLog:
        if entry.log is None:
            entry.log = EventLog(self.limits, self.sessions.ledger)
        return entry.log

    def primes(self, entry: HttpSession) -> bool:
        """Whether streams begin with an event that has an id and no data."""
        return entry.session.revision.primed_streams and not self.options.shared

    async def run(self, entry: HttpSession, call: Call, send: Send, headers: Headers | None = None) -> None:
        """Answer one call, in the task of its POST."""
        channel = SessionChannel(self, entry, send, headers, call)
        data = await self.answer(entry, call, channel)
        if channel.stream is not None:
            await channel.conclude(data)
        elif data is not None:
            host: object = getattr(send, "__self__", None)
            whole = WHOLE.get(type(host)) if headers is None and channel.status == 200 else None
            if whole is not None and whole(host, data):
                return
            length = (b"content-length", b"%d" % len(data))
            lines = [JSON_TYPE, length] if headers is None else [JSON_TYPE, length, *headers]
            await send({"type": "http.response.start", "status": channel.status, "headers": lines})
            await send({"type": "http.response.body", "body": data})
        else:
            await answer(send, 202)  # cancelled: there is nothing to say

    async def answer(self, entry: HttpSession, call: Call, channel: SessionChannel) -> bytes | None:
        """Run the call; None when there is no answer: it was cancelled, or its batch is not complete."""
        endpoint = entry.endpoint
        task = asyncio.current_task()
        assert task is not None
        entry.running[call.id] = task
        self.running.add(task)
        error: DovetailError
        try:
            return endpoint.send_result(call, await self.service.respond(call, channel))
        except DovetailError as reason:
            error = reason
        except asyncio.CancelledError:
            if call.cancelled:
                task.uncancel()
                return None
            if self.draining:
                task.uncancel()
                error = shutting_down()
            elif task.cancelling():
                raise
            else:
                error = mask(call.method)  # the handler let the end of something of its own escape
        except (Exception, SystemExit):  # noqa: BLE001  the net below the service
            error = mask(call.method)
        finally:
            if entry.running.get(call.id) is task:
                # A call that was cancelled may end after another one has taken its id.
                del entry.running[call.id]
            if entry.aside:
                self.sessions.settle(entry)
            self.running.discard(task)
        channel.status = self.service.admission.status_of(error, call.revision)
        return endpoint.send_error(call, error)


class SessionChannel(PlainChannel, Struct, eq=False):
    """The way back for one POST."""

    calls: Calls
    entry: HttpSession
    send: Send
    headers: Headers | None
    call: Call | None = None
    together: SessionChannel | None = None
    """The channel of the whole array, for a call that came in one."""
    status: int = 200
    stream: LoggedStream | None = None
    sink: EventStream | None = None

    def notify(self, method: str, params: Struct | None) -> None:
        if self.calls.options.json_only:
            return
        data = self.entry.endpoint.send_notification(method, params, call=self.call)
        if data is not None:
            self.open().write(data)

    async def request(self, method: str, params: Struct) -> Any:
        options = self.calls.options
        if options.json_only:
            raise NoBackChannel("questions need a stream to the client; this server answers with JSON only")
        if options.shared:
            raise NoBackChannel("questions to clients of older revisions need one process: use workers=1")
        entry = self.entry
        if entry.session.codec.dialect.refuse_responses:
            raise NoBackChannel("this dialect takes no answers, so nothing can be asked")
        id, data = entry.endpoint.send_request(method, params)
        future = entry.expect(id)
        self.open().write(data)
        try:
            async with asyncio.timeout(options.answer_timeout):
                reply = await future
        except TimeoutError:
            self._withdraw(id, "no answer in time")
            raise TransportError("the client did not answer in time", cause="idle") from None
        except asyncio.CancelledError:
            self._withdraw(id, "the call was cancelled")
            raise
        return entry.read(reply)

    def _withdraw(self, id: Any, reason: str) -> None:
        if self.entry.answers is not None:
            self.entry.answers.pop(id, None)
        data = self.entry.endpoint.send_cancel(id, reason)
        if data is not None:
            self.open().write(data)

    async def drain(self) -> None:
        if self.together is not None:
            await self.together.drain()
        elif self.stream is not None and self.stream.sink is not None:
            await self.stream.sink.drain()

    async def close_stream(self) -> None:
        """2025-11-25: end the response but not the call; the client comes back for the rest."""
        if self.calls.options.json_only or self.together is not None or not self.calls.primes(self.entry):
            return
        stream = self.open()
        for sink in list(stream.sinks):
            stream.detach(sink)
            self.calls.streams.discard(sink)
            await sink.finish()

    def open(self) -> LoggedStream:
        """The event stream of this POST, begun with the first thing there is to say."""
        if self.together is not None:
            return self.together.open()
        if self.stream is None:
            calls = self.calls
            self.stream = calls.log(self.entry).open()
            self.sink = EventStream(
                self.send, calls.limits.write_buffer, self.headers, calls.options.write_timeout
            )
            self.sink.principal = self.entry.session.principal
            self.stream.attach(self.sink)
            calls.streams.add(self.sink)
            if calls.primes(self.entry):
                self.stream.prime(calls.options.retry)
        return self.stream

    async def conclude(self, data: bytes | None) -> None:
        """End the stream, with the reply as its last event if there is one."""
        stream, sink, log = self.stream, self.sink, self.entry.log
        assert stream is not None
        assert sink is not None
        if data is not None:
            stream.write(data)
        if log is not None:
            log.finish(stream)
        self.calls.streams.discard(sink)
        # The log keeps the stream for its events: it must not keep the responses, and all that hangs on them.
        sinks, stream.sinks = stream.sinks, []
        for one in sinks:
            await one.finish()
        await sink.finish()


def shutting_down() -> Refusal:
    return Refusal(1008, message="the server is shutting down", retry_after=1)
