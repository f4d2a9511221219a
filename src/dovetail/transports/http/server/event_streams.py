"""Event streams: responses of type ``text/event-stream``.

`EventStream` turns messages into a response body. `write` never blocks: it appends to a buffer, which is passed to the
HTTP server at the end of the loop iteration, or by a task if that has to wait. `drain` waits until the buffer is sent.
A client that does not read loses its stream when the buffer reaches its limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from msgspec import Struct

from ....core.principal import Principal
from ....errors import Refusal, TransportError
from ....wire.sse import COMMENT, encode_event
from .http_exchange import Exchange, Headers, ResponseSink


def stream_refusal(
    limit: int, principal: Principal | None, owners: Collection[Principal | None]
) -> Refusal | None:
    """Return the refusal if ``principal`` may not open another stream, else None.

    A principal gets at most half of them.
    """
    if len(owners) < limit and (
        principal is None or sum(owner == principal for owner in owners) < max(1, limit // 2)
    ):
        return None
    return Refusal(1060, message="too many streams are open", retry_after=5)


class EventStreamResponse(Struct, eq=False):
    """One event-stream response. `write` begins it; its creator must call `finish`."""

    exchange: Exchange
    limit: int
    """Bytes that may be buffered. One message more is accepted, so that a large one can be sent."""
    close_timeout: float
    """Seconds that the client of an abandoned stream has to read its end."""
    headers: Headers = ()
    """Further response headers."""
    principal: Principal | None = None
    """The owner of the stream, if it is known; see `stream_refusal`."""
    closed: bool = False
    """Writes are ignored from now on."""
    pending: list[bytes] = []
    """The buffered data."""
    on_abandon: Callable[[], object] | None = None
    """Called when the stream is abandoned because its client does not read or has disconnected."""
    _size: int = 0
    _sending: int = 0
    """Bytes that are being sent."""
    _sink: ResponseSink | None = None
    _ended: bool = False
    _woken: bool = False
    _task: asyncio.Task[None] | None = None
    _flushed: asyncio.Future[None] | None = None
    _closer: asyncio.Task[None] | None = None
    _done: asyncio.Event | None = None

    @property
    def started(self) -> bool:
        """The response has begun, or is about to begin: its status cannot change any more."""
        return self._sink is not None or bool(self.pending)

    @property
    def full(self) -> bool:
        """The buffer is above its limit."""
        return self._size > self.limit

    def write(self, data: bytes, *, now: bool = False) -> None:
        """Append encoded events to the buffer; does nothing once the stream is over.

        All writes of one loop iteration are sent together at its end, or at once with ``now``.
        """
        if self.closed:
            return
        if self._size - self._sending > self.limit:
            # The client does not read.
            self._give_up()
            return
        self._size += len(data)
        self.pending.append(data)
        if now:
            self._wake()
        elif not self._woken and self._flushed is None:
            self._woken = True
            asyncio.get_running_loop().call_soon(self._wake)

    def begin(self, data: bytes) -> None:
        """Set data that is sent with the first `write`, before it."""
        self._size += len(data)
        self.pending.append(data)

    def notify(self, message: bytes) -> None:
        self.write(encode_event(message))

    def keep_alive(self) -> None:
        """Send a comment if the stream has begun and nothing is buffered."""
        if self._sink is not None and not self._size:
            self.write(COMMENT)

    async def drain(self) -> None:
        """Send the buffer; return when the HTTP server has accepted it."""
        while self._flushed is not None:
            await asyncio.wait({self._flushed})
        if self.pending:
            await self._flush()

    def _wake(self, *, alone: bool = True) -> bool:
        """Send the buffer without waiting; False if that is not possible. With ``alone`` a task then sends it."""
        self._woken = False
        if not self.pending or self._flushed is not None:
            return True  # it is sent, or a task is sending it
        data = b"".join(self.pending)
        if self._sink is None:
            self._sink = self.exchange.stream(self.headers)
        try:
            if not self._sink.take(data):
                if alone:
                    self._task = asyncio.get_running_loop().create_task(self._flush())
                return False
        except TransportError:
            self._give_up()
        else:
            self.pending.clear()
            self._size -= len(data)
        return True

    async def _flush(self) -> None:
        flushed = self._flushed = asyncio.get_running_loop().create_future()
        if self._sink is None:
            self._sink = self.exchange.stream(self.headers)
        try:
            while self.pending:
                count, data = len(self.pending), b"".join(self.pending)
                self._sending = len(data)
                await self._sink.write(data)
                del self.pending[:count]
                self._size -= self._sending
                self._sending = 0
        except TransportError:
            self._give_up()
        finally:
            self._flushed = None
            flushed.set_result(None)

    async def finish(self, last: bytes | None = None) -> None:
        """Send ``last``, an encoded event, then end the response. Call it in any case, also after `abandon`."""
        if self._ended:
            return
        given_up = self.closed
        if not given_up:
            if last is not None:
                self.pending.append(last)
            if self._flushed is not None:
                await self.drain()
            elif not self._wake(alone=False):
                await self._flush()
        if self._ended:
            return
        self._ended = True
        self.abandon()
        if self._task is not None:
            self._task.cancel()
        if self._sink is None:
            self._sink = self.exchange.stream(self.headers)
        if not given_up:
            await self._sink.close()
            return
        try:
            async with asyncio.timeout(self.close_timeout):
                await self._sink.close()
        except TimeoutError:
            pass  # the client does not read

    async def end(self, reply: bytes | None) -> None:
        """`finish` with a reply as the last event, if there is one."""
        await self.finish(None if reply is None else encode_event(reply))

    def close_soon(self) -> None:
        """Call `finish` in a task."""
        if not self.closed and self._closer is None:
            self._closer = asyncio.get_running_loop().create_task(self.finish())

    def _give_up(self) -> None:
        self.abandon()
        if self.on_abandon is not None:
            self.on_abandon()

    def abandon(self) -> None:
        """Drop the buffer, and ignore further writes."""
        self.closed = True
        self.pending.clear()
        if self._done is not None:
            self._done.set()

    async def wait(self) -> None:
        """Return when the stream is closed."""
        if self.closed:
            return
        if self._done is None:
            self._done = asyncio.Event()
        await self._done.wait()
