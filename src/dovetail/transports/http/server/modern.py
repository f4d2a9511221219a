"""2026-07-28 over HTTP: one POST, one answer, nothing kept.

The call runs in the task of its request. The answer is JSON, or an event stream from the first notification
on. When the client hangs up the call is cancelled.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct

from ....core.channel import Call, NoBackChannel, PlainChannel
from ....core.endpoint import LISTEN
from ....drivers.run import Runner, mask
from ....errors import DovetailError, ProtocolError, Refusal
from ....settings import HttpOptions
from ..host.whole import WHOLE
from .asgi import JSON_TYPE, Receive, Send, answer, retry
from .disconnects import Watch, Watching
from .event_streams import EventStream, crowded
from .service import HttpService
from .session_calls import shutting_down


class Modern:
    """The modern half of one app."""

    def __init__(self, service: HttpService, options: HttpOptions, streams: set[EventStream]) -> None:
        self.service = service
        self.options = options
        self.streams = streams
        self.listening: set[asyncio.Task[Any]] = set()
        self.watching = Watching()
        self._limit = service.limits.write_buffer
        self._most = service.limits.streams
        self.json_only = options.json_only
        self._patience = options.write_timeout
        self.draining = False
        """Calls that are cancelled now are cancelled because the server shuts down, and are told so."""

    async def serve(self, call: Call, receive: Receive, send: Send, task: asyncio.Task[Any]) -> None:
        """Answer one admitted call; ``task`` is the one that runs this.

        This is `drivers.exchange` written out: a call of its own for each part would cost more than the part.
        """
        if call.method == LISTEN:
            await self._listen(call, receive, send, task)
            return
        channel = ModernChannel(call, send, self)
        watching = self.watching
        watching.calls[task] = receive
        if watching.idle:
            watching.start()
        error: DovetailError | None = None
        status = 0
        data = b""
        try:
            data = call.codec.encode_result(call.id, await self.service.respond(call, channel))
        except DovetailError as reason:
            error = reason
        except asyncio.CancelledError:
            if not task.cancelling():
                error = mask(call.method)  # the handler let the end of something of its own escape
            else:
                call.cancelled = True
                if watching.leave(task):
                    # Streamable HTTP 2026-07-28, Cancellation: a closed stream cancels the request.
                    task.uncancel()
                    await channel.finish()
                    return
                if not self.draining:
                    raise
                task.uncancel()
                error, status = shutting_down(), 503
        except (Exception, SystemExit):  # noqa: BLE001  the net below the service
            error = mask(call.method)
        finally:
            watching.calls.pop(task, None)
            if watching.watches:
                watching.leave(task)
        if error is not None:
            data = call.codec.encode_error(call.id, error)
        if channel.stream is not None:
            await channel.stream.finish(data)
        elif error is None:
            host: object = getattr(send, "__self__", None)
            whole = WHOLE.get(type(host))
            if whole is not None and whole(host, data):
                return
            length = (b"content-length", b"%d" % len(data))
            await send({"type": "http.response.start", "status": 200, "headers": [JSON_TYPE, length]})
            await send({"type": "http.response.body", "body": data})
        else:
            status = status or self.service.admission.status_of(error, call.revision)
            await answer(send, status, data, retry(error, status))

    def stream(self, send: Send) -> EventStream:
        return EventStream(send, self._limit, None, self._patience)

    async def _listen(self, call: Call, receive: Receive, send: Send, task: asyncio.Task[Any]) -> None:
        """``subscriptions/listen`` stays open: it is kept alive, counted, and ended in order at shutdown."""
        refusal = self._listening_problem(call.principal)
        if refusal is not None:
            # Streams that are all taken are no refusal of a handler: later there may be one.
            busy = isinstance(refusal, Refusal)
            status = 503 if busy else self.service.admission.status_of(refusal, call.revision)
            data = call.codec.encode_error(call.id, refusal)
            await answer(send, status, data, retry(refusal, status))
            return

        def give_up() -> None:
            call.cancelled = True
            task.cancel()

        stream = self.stream(send)
        stream.on_abandon = give_up
        stream.principal = call.principal
        watch = Watch(receive, give_up)
        self.streams.add(stream)
        self.listening.add(task)
        try:
            channel = ModernChannel(call, send, self, stream)
            data, error = await Runner(self.service).run(call, channel)
        finally:
            watch.stop()
            stream.on_abandon = None
            self.streams.discard(stream)
            self.listening.discard(task)
        if data is None:
            stream.abandon()
            await stream.finish()
        elif stream.started or stream.pending:
            await stream.finish(data)
        else:
            status = 200 if error is None else self.service.admission.status_of(error, call.revision)
            await answer(send, status, data, [] if error is None else retry(error, status))

    def _listening_problem(self, principal: str | None) -> ProtocolError | Refusal | None:
        if self.json_only:
            return ProtocolError(
                "method_not_found", "this server answers with JSON only and cannot tell of changes"
            )
        return crowded(self._most, principal, [stream.principal for stream in self.streams])


class ModernChannel(PlainChannel, Struct, eq=False):
    """What a call may say before its result. The stream is made when there is something to say."""

    call: Call
    send: Send
    modern: Modern
    stream: EventStream | None = None

    def notify(self, method: str, params: Struct | None) -> None:
        if self.call.cancelled or self.modern.json_only:
            return
        if self.stream is None:
            self.stream = self.modern.stream(self.send)
        self.stream.notify(self.call.codec.encode_notification(method, params))

    async def request(self, method: str, params: Struct) -> Any:
        raise NoBackChannel

    async def drain(self) -> None:
        if self.stream is not None:
            await self.stream.drain()

    async def finish(self) -> None:
        if self.stream is not None:
            await self.stream.finish()
