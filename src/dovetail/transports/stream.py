"""One message per line over any byte stream: the link behind stdio, child processes, TCP and Unix sockets.

What arrives goes straight to the receiver: no reader task, no queue. When the peer does not take what we send
and more than ``limits.max_write_buffer_bytes`` bytes have piled up, reading stops until it does: whoever does not
listen is not heard either, and neither side can make the other grow.

However many lines arrive at once, `TURN_LINES` of them are dealt with in one turn of the loop; reading waits for that.

A line that outgrows ``limits.max_message_bytes`` is answered and, where the stream can be trusted to go on
(``recover=True``), skipped up to its newline; a line of more than `SKIPPED_SIZES` times that size ends the connection.
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

TURN_LINES: Final = 100
"""Lines of one peer that are dealt with before others get their turn: some milliseconds of the shortest calls."""
SKIPPED_SIZES: Final = 8
"""How many times the size limit of an oversized line is read over before the peer is given up."""


class Source(Protocol):
    """The reading half: an asyncio transport, or a thread that reads a file."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...


class Sink(Protocol):
    """The writing half."""

    def write(self, data: bytes) -> None: ...
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Waiters:
    """Whoever waits in `Link.drain` until the peer takes more."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        await future

    def release(self) -> None:
        """It does, or never will: let everybody go on."""
        futures, self._futures = self._futures, []
        for future in futures:
            if not future.done():
                future.set_result(None)


class LineLink(Link, asyncio.Protocol):
    """A `Link` that is also the asyncio protocol of its stream. Give it a source and a sink with `attach`."""

    def __init__(self, receiver: Receiver, limits: Limits, *, recover: bool = False) -> None:
        self.chunks = 0
        """Grows with every read: whoever watches for silence compares it with what it was."""
        self.peer = "the peer"
        """What messages call the other end; whoever connects to an address says so here."""
        self._receiver = receiver
        self._limits = limits
        self._limit = limits.max_message_bytes
        self._recover = recover
        self._source: Source | None = None
        self._sink: Sink | None = None
        self._unfinished = LineBuffer(self._limit)
        self._held = False
        self._skipped = 0  # bytes of an oversized line read over so far; 0: none is being skipped
        self._later = b""  # what was read and waits for its turn
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
            # Only a value passed on raw can hold one, between its tokens, where a space means the same.
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

    # --- what asyncio calls ---------------------------------------------------------------------------------

    def attach(self, source: Source, sink: Sink) -> None:
        """Begin: tell the receiver that it is connected."""
        sink.set_write_buffer_limits(high=self._limits.max_write_buffer_bytes)
        self._source, self._sink = source, sink
        self._receiver.connected(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)
        self.attach(stream, stream)

    def data_received(self, data: bytes) -> None:
        self.chunks += 1
        if self._later:
            self._later += data
            return
        if self._held or self._skipped:
            data = self._continue(data)
        limit = self._limit
        received = self._receiver.received
        lines = data.split(b"\n", TURN_LINES)
        rest = lines.pop()
        for line in lines:
            if len(line) > limit and len(line.rstrip(b"\r")) > limit:
                self._too_large(finished=True)
            elif line and not line.isspace():
                received(line)
            if self._closing:
                return
        if rest and len(lines) == TURN_LINES:
            self._postpone(rest)
        elif rest:
            self._hold(rest)

    def eof_received(self) -> bool:
        """The peer sends nothing more; it may still read."""
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
        # A link hangs in a circle of objects: what came of a line would stay until the garbage collector finds it.
        self._unfinished, self._held, self._later = LineBuffer(self._limit), False, b""

    # --- inside ---------------------------------------------------------------------------------------------

    def finish(self, error: TransportError | None) -> None:
        """The stream is gone: tell the receiver, once, after what was read of it."""
        self._catch_up()
        self._sink = self._source = None
        self.blocked = False
        self._waiters.release()
        if not self._lost:
            self._lost = True
            self._receiver.lost(error)

    def _read_on(self) -> None:
        """Read, unless something still stands against it."""
        if self._source is not None and not (self._later or self._paused or self.blocked or self._closing):
            self._source.resume_reading()

    def _postpone(self, data: bytes) -> None:
        self._later = data
        if self._source is not None:
            self._source.pause_reading()
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        """Deal with the next of what was read before."""
        data, self._later = self._later, b""
        if data and not self._closing:
            self.data_received(data)
            self._read_on()

    def _catch_up(self) -> None:
        while self._later and not self._closing:
            self._go_on()

    def _continue(self, data: bytes) -> bytes:
        """Go on with an unfinished line; return what comes after it."""
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
        if self._skipped > SKIPPED_SIZES * self._limit:
            self.abort()
            self.finish(TransportError("a line of the peer never ended", cause="protocol"))
        return b""

    def _too_large(self, *, finished: bool) -> None:
        self._unfinished = LineBuffer(self._limit)
        self._held = False
        self._skipped = 0 if finished else 1
        self._receiver.oversized(self._limit)
        if not self._recover:
            self.close()


def lost_because(error: BaseException, peer: str = "the peer") -> TransportError:
    """Say in one word why a stream broke. ``peer`` is how messages call the other end: its address, if it has one."""
    if isinstance(error, TransportError):
        return error
    if isinstance(error, ssl.SSLError):
        return TransportError(f"TLS with {peer} failed: {error.reason or error}", cause="tls")
    if isinstance(error, TimeoutError):
        return TransportError(f"the connection to {peer} timed out", cause="timeout")
    if isinstance(error, ConnectionError):
        return TransportError(f"{peer} reset the connection", cause="reset")
    return TransportError(f"the connection to {peer} broke: {error}", cause="reset")


def cannot_connect(where: str, error: OSError) -> TransportError:
    """Say why there is no connection to ``where``: nobody listens, or TLS failed."""
    if isinstance(error, ssl.SSLError):
        return TransportError(f"cannot connect to {where}: TLS failed: {error.reason or error}", cause="tls")
    return TransportError(f"cannot connect to {where}: {error.strerror or error}", cause="refused")
