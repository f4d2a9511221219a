"""2026-07-28 over HTTP: one POST, one answer, nothing kept.

The call runs in the task of its request. The answer is JSON, or an event stream from the first notification
on. When the client hangs up the call is cancelled.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct

from ...core.channel import Call
from ...core.endpoint import LISTEN
from ...drivers.exchange import exchange
from ...errors import ProtocolError, Refusal
from ...settings import HttpOptions
from .asgi import JSON_TYPE, Receive, Send, answer
from .calls import shutting_down
from .service import HttpService
from .streams import SILENCE, EventStream
from .watching import Watch, Watching


class Modern:
    """The modern half of one app."""

    def __init__(
        self, service: HttpService, options: HttpOptions, streams: set[EventStream], running: set[Any]
    ) -> None:
        self.service = service
        self.options = options
        self.streams = streams
        self.running: set[asyncio.Task[Any]] = running
        self.listening: set[asyncio.Task[Any]] = set()
        self.watching = Watching()
        self._limit = service.limits.write_buffer
        self._most = service.limits.streams
        self._json_only = options.json_only
        self._patience = options.write_timeout
        self.draining = False
        """Calls that are cancelled now are cancelled because the server shuts down, and are told so."""

    async def serve(self, call: Call, receive: Receive, send: Send, task: asyncio.Task[Any]) -> None:
        """Answer one admitted call; ``task`` is the one that runs this."""
        if call.method == LISTEN:
            await self._listen(call, receive, send, task)
            return
        stream = SILENCE if self._json_only else LazyStream(send, self)
        watching = self.watching
        watching.calls[task] = receive
        if watching.idle:
            watching.start()
        self.running.add(task)
        try:
            data, error = await exchange(self.service, call, stream)
        except asyncio.CancelledError:
            if watching.leave(task):
                # Streamable HTTP 2026-07-28, Cancellation: a closed stream cancels the request.
                task.uncancel()
                await stream.finish()
                return
            if not self.draining:
                raise
            task.uncancel()
            error = shutting_down()
            data = call.codec.encode_error(call.id, error)
        finally:
            self.running.discard(task)
            watching.calls.pop(task, None)
            if watching.watches:
                watching.leave(task)
        if stream.begun:
            await stream.finish(data)
        elif error is None:
            length = (b"content-length", b"%d" % len(data))
            await send({"type": "http.response.start", "status": 200, "headers": [JSON_TYPE, length]})
            await send({"type": "http.response.body", "body": data})
        else:
            await answer(send, self.service.admission.status_of(error, call.revision), data)

    def stream(self, send: Send) -> EventStream:
        return EventStream(send, self._limit, None, self._patience)

    async def _listen(self, call: Call, receive: Receive, send: Send, task: asyncio.Task[Any]) -> None:
        """``subscriptions/listen`` stays open: it is kept alive, counted, and ended in order at shutdown."""
        refusal = self._listening_problem()
        if refusal is not None:
            status = self.service.admission.status_of(refusal, call.revision)
            await answer(send, status, call.codec.encode_error(call.id, refusal), [(b"retry-after", b"5")])
            return

        def give_up() -> None:
            call.cancelled = True
            task.cancel()

        stream = self.stream(send)
        stream.on_abandon = give_up
        watch = Watch(receive, give_up)
        self.streams.add(stream)
        self.listening.add(task)
        try:
            data, error = await exchange(self.service, call, stream)
        except asyncio.CancelledError:
            if not (watch.disconnected or stream.closed):
                raise
            task.uncancel()
            stream.abandon()
            await stream.finish()
            return
        finally:
            watch.stop()
            stream.on_abandon = None
            self.streams.discard(stream)
            self.listening.discard(task)
        if stream.started or stream.pending:
            await stream.finish(data)
        else:
            status = 200 if error is None else self.service.admission.status_of(error, call.revision)
            await answer(send, status, data)

    def _listening_problem(self) -> ProtocolError | Refusal | None:
        if self._json_only:
            return ProtocolError(
                "method_not_found", "this server answers with JSON only and cannot tell of changes"
            )
        if len(self.streams) >= self._most:
            return Refusal(1004, message="too many streams are open", retry_after=5)
        return None


class LazyStream(Struct, eq=False):
    """An event stream that is made when there is something to say; most calls say nothing but their result."""

    send: Send
    modern: Modern
    begun: EventStream | None = None

    def notify(self, message: bytes) -> None:
        if self.begun is None:
            self.begun = self.modern.stream(self.send)
        self.begun.notify(message)

    async def drain(self) -> None:
        if self.begun is not None:
            await self.begun.drain()

    async def finish(self, last: bytes | None = None) -> None:
        if self.begun is not None:
            await self.begun.finish(last)
