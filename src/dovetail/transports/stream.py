"""Newline-framed messages over any byte stream: the link for stdio, child processes, TCP and Unix sockets.

Received messages go directly to the receiver, without a reader task or a queue. Backpressure: while more than
``limits.max_write_buffer_bytes`` bytes wait for the peer to read, reading from the peer pauses. So neither
side can make the other one buffer without limit.

At most `LINES_PER_ITERATION` received lines are processed in one loop iteration; reading pauses until the rest is
processed.

A line longer than ``limits.max_message_bytes`` gets an error response. With ``recover=True`` it is skipped up
to its newline; a line of more than `MAX_SKIPPED_SIZES` times the limit closes the connection.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, Protocol, cast

from ..core.channel import Link, Receiver
from ..errors import RemoteProtocolError, TransportError
from ..settings import Limits
from ..wire.frames import LINE_FEED
from ..wire.lines import LineBuffer

LINES_PER_ITERATION: Final = 100
"""Lines of one peer processed before other connections get their turn: a few milliseconds of short calls."""
MAX_SKIPPED_SIZES: Final = 8
"""How many times the limit an oversized line may have before the connection is closed."""


class ByteSource(Protocol):
    """The reading side: an asyncio transport, or a thread that reads a file."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...


class ByteSink(Protocol):
    """The writing side."""

    def write(self, data: bytes) -> None: ...
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Waiters:
    """The callers of `Link.drain` that wait for the peer to read."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        await future

    def release(self) -> None:
        """Wake all waiting callers: the peer reads again, or has disconnected."""
        futures, self._futures = self._futures, []
        for future in futures:
            if not future.done():
                future.set_result(None)


class LineLink(Link, asyncio.Protocol):
    """A `Link` that is also the asyncio protocol of its stream.

    Connect it to a source and a sink with `attach`.
    """

    def __init__(self, receiver: Receiver, limits: Limits, *, recover: bool = False) -> None:
        self.chunks = 0
        """Incremented with every read; idle checks compare it with an earlier value."""
        self.peer = "the peer"
        """The name of the peer in messages; connecting code sets its address."""
        self._receiver = receiver
        self._limits = limits
        self._limit = limits.max_message_bytes
        self._recover = recover
        self._source: ByteSource | None = None
        self._sink: ByteSink | None = None
        self._unfinished = LineBuffer(self._limit)
        self._held = False
        self._skipped = 0  # bytes skipped of an oversized line; 0: no line is being skipped
        self._unprocessed = b""  # received data that is processed later
        self._paused = False
        self._closing = False
        self._lost = False
        self._waiters = Waiters()

    # --- Link -----------------------------------------------------------------------------------------------

    def send(self, message: bytes) -> None:
        sink = self._sink
        if sink is None or self._closing:
            return
        if LINE_FEED in message:
            # Only raw values contain newlines, between tokens, where a space is equivalent.
            message = message.replace(b"\n", b" ")
        sink.write(message + b"\n")

    def send_many(self, messages: list[bytes]) -> None:
        """Send several messages in one write."""
        sink = self._sink
        if sink is None or self._closing:
            return
        data = b"\n".join(messages)
        if data.count(b"\n") >= len(messages):
            data = b"\n".join([message.replace(b"\n", b" ") for message in messages])
        sink.write(data + b"\n")

    async def drain(self) -> None:
        if self.blocked:
            await self._waiters.wait()

    def pause(self) -> None:
        self._paused = True
        if self._source is not None and not self._closing:
            self._source.pause_reading()

    def resume(self) -> None:
        self._paused = False
        self._read_on()

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        source: object = self._source
        if self._source is not None and source is not self._sink:
            self._source.close()
        if self._sink is not None:
            self._sink.close()

    def abort(self) -> None:
        self.close()
        if self._sink is not None:
            self._sink.abort()

    # --- asyncio callbacks ----------------------------------------------------------------------------------

    def attach(self, source: ByteSource, sink: ByteSink) -> None:
        """Connect source and sink, and notify the receiver."""
        sink.set_write_buffer_limits(high=self._limits.max_write_buffer_bytes)
        self._source, self._sink = source, sink
        self._receiver.connected(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)
        self.attach(stream, stream)

    def data_received(self, data: bytes) -> None:
        self.chunks += 1
        if self._unprocessed:
            self._unprocessed += data
            return
        if self._held or self._skipped:
            data = self._continue(data)
        limit = self._limit
        received = self._receiver.received
        lines = data.split(b"\n", LINES_PER_ITERATION)
        rest = lines.pop()
        for line in lines:
            if len(line) > limit and len(line.rstrip(b"\r")) > limit:
                self._too_large(finished=True)
            elif line and not line.isspace():
                received(line)
            if self._closing:
                return
        if rest and len(lines) == LINES_PER_ITERATION:
            self._postpone(rest)
        elif rest:
            self._hold(rest)

    def eof_received(self) -> bool:
        """Handle the end of the input; the peer may still read."""
        self._catch_up()
        last = self._unfinished.finish() if self._held else None
        self._held = False
        if last is not None and not self._closing:
            self._receiver.received(last)
        self._receiver.ended()
        return True

    def pause_writing(self) -> None:
        self.blocked = True
        if self._source is not None and not self._closing:
            self._source.pause_reading()

    def resume_writing(self) -> None:
        self.blocked = False
        self._read_on()
        self._waiters.release()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.finish(None if exc is None else lost_because(exc, self.peer))
        # A reference cycle would keep the last line until the garbage collector runs.
        self._unfinished, self._held, self._unprocessed = LineBuffer(self._limit), False, b""

    # --- internal -------------------------------------------------------------------------------------------

    def finish(self, error: TransportError | None) -> None:
        """Report the end of the stream to the receiver, once, after the data received before."""
        self._catch_up()
        self._sink = self._source = None
        self.blocked = False
        self._waiters.release()
        if not self._lost:
            self._lost = True
            self._receiver.lost(error)

    def _read_on(self) -> None:
        """Resume reading, unless something still blocks it."""
        if self._source is not None and not (
            self._unprocessed or self._paused or self.blocked or self._closing
        ):
            self._source.resume_reading()

    def _postpone(self, data: bytes) -> None:
        self._unprocessed = data
        if self._source is not None:
            self._source.pause_reading()
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        """Process more of the received data."""
        data, self._unprocessed = self._unprocessed, b""
        if data and not self._closing:
            self.data_received(data)
            self._read_on()

    def _catch_up(self) -> None:
        while self._unprocessed and not self._closing:
            self._go_on()

    def _continue(self, data: bytes) -> bytes:
        """Append to an unfinished line. Returns the rest of the data."""
        end = data.find(b"\n") + 1
        if self._skipped:
            return self._skip(data, end)
        head, rest = (data[:end], data[end:]) if end else (data, b"")
        self._unfinished.feed(head)
        try:
            line = self._unfinished.next_line()
        except RemoteProtocolError:
            self._too_large(finished=bool(end))
            return rest
        if end:
            self._held = False
            if line is not None:
                self._receiver.received(line)
        return rest

    def _hold(self, data: bytes) -> None:
        self._held = True
        self._unfinished.feed(data)
        try:
            self._unfinished.next_line()
        except RemoteProtocolError:
            self._too_large(finished=False)

    def _skip(self, data: bytes, end: int) -> bytes:
        if end:
            self._skipped = 0
            return data[end:]
        self._skipped += len(data)
        if self._skipped > MAX_SKIPPED_SIZES * self._limit:
            self.abort()
            self.finish(
                TransportError(
                    "the peer sent a line that exceeds the size limit many times", cause="protocol"
                )
            )
        return b""

    def _too_large(self, *, finished: bool) -> None:
        self._unfinished = LineBuffer(self._limit)
        self._held = False
        self._skipped = 0 if finished else 1
        self._receiver.oversized(self._limit)
        if not self._recover:
            self.close()


def lost_because(error: BaseException, peer: str = "the peer") -> TransportError:
    """Convert the exception of a broken stream. ``peer`` is the name of the peer in messages."""
    if isinstance(error, TransportError):
        return error
    if isinstance(error, ssl.SSLError):
        return TransportError(f"TLS with {peer} failed: {error.reason or error}", cause="tls")
    if isinstance(error, TimeoutError):
        return TransportError(f"the connection to {peer} timed out", cause="timeout")
    if isinstance(error, ConnectionError):
        return TransportError(f"{peer} reset the connection", cause="reset")
    return TransportError(f"the connection to {peer} failed: {error}", cause="reset")


def cannot_connect(where: str, error: OSError) -> TransportError:
    """Return the error for a failed connection attempt to ``where``."""
    if isinstance(error, ssl.SSLError):
        return TransportError(f"cannot connect to {where}: TLS failed: {error.reason or error}", cause="tls")
    return TransportError(f"cannot connect to {where}: {error.strerror or error}", cause="refused")
