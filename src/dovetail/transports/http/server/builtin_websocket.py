"""A WebSocket on the built-in server: the sans-I/O protocol of the ``websockets`` package on an `HttpConnection`.

Limits: a message may have `Limits.max_websocket_message_bytes` (close code 1009) and `HttpOptions.body_timeout` seconds
(1008); unfinished messages above 64 KiB count in `Limits.max_buffered_bytes` (1013). A client that
answers no ping for `HttpOptions.websocket_ping_interval` is disconnected (1011). While messages wait for the server, or
the client does not read, the connection is not read from.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import deque
from collections.abc import Sequence
from hashlib import sha1
from typing import TYPE_CHECKING, Final

from msgspec import field
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from ....core.limits import UNCOUNTED_BYTES
from .http_exchange import CLOSE, TEXT_TYPE, Headers, ScopeHeaders, client_disconnected
from .websockets import INTERNAL_ERROR, INVALID_TEXT, POLICY_VIOLATION, TRY_AGAIN_LATER, handshake_problem

if TYPE_CHECKING:
    from .builtin_server import HttpConnection, WebSocketHandler

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3
_WAITING_BYTES: Final = 64 << 10
"""Bytes of whole messages that wait for the server before the connection is not read from."""


class BuiltinWebSocket(ScopeHeaders, eq=False, weakref=True):
    """The `Socket` of a connection."""

    connection: HttpConnection
    handler: WebSocketHandler
    answered: bool = False
    task: asyncio.Task[None] | None = None
    _protocol: ServerProtocol | None = None
    """None until the handshake is complete."""
    _early: bytearray = field(default_factory=bytearray)
    """Frames received before the handshake was complete."""
    _messages: deque[tuple[str | bytes, int]] = field(default_factory=deque[tuple[str | bytes, int]])
    """Whole messages, each with its size in bytes."""
    _waiting: int = 0
    """Bytes of those together."""
    _message: bytes | bytearray = b""
    """The fragments of an unfinished message, and of which kind it is."""
    _kind: Opcode = Opcode.TEXT
    _unparsed: int = 0
    """Bytes of an unfinished frame, which the protocol holds."""
    _unfinished_since: float | None = None
    _counted: int = 0
    """Bytes of an unfinished message that are counted in the server-wide limit."""
    closed_by_both: bool = False
    """The closing handshake is complete: the client sends nothing more."""
    _ended: bool = False
    """No further message comes."""
    _waiter: asyncio.Future[None] | None = None
    _ping_at: float = 0.0
    _unanswered: bool = False
    """A ping was sent, and nothing was received since."""

    @property
    def offered(self) -> Sequence[str]:
        lines = [
            value.decode("latin-1")
            for name, value in self.scope["headers"]
            if name == b"sec-websocket-protocol"
        ]
        return [name.strip() for name in ",".join(lines).split(",") if name.strip()]

    @property
    def handshake_problem(self) -> str | None:
        return handshake_problem(self.method, self.headers)

    # --- the app calls these --------------------------------------------------------------------------------

    async def refuse(self, status: int, reason: str, headers: Headers = ()) -> None:
        connection, body = self.connection, reason.encode()
        self.answered = True
        if not connection.lost:
            connection.write(connection.head(status, (TEXT_TYPE, *headers, *CLOSE), len(body)) + body)
            connection.close(unread=True)

    async def accept(self, subprotocol: str | None) -> None:
        connection = self.connection
        if connection.lost:
            raise client_disconnected()
        key = b64encode(sha1(self.headers["sec-websocket-key"].encode() + _GUID).digest()).decode()
        lines = [("upgrade", "websocket"), ("connection", "Upgrade"), ("sec-websocket-accept", key)]
        if subprotocol is not None:
            lines.append(("sec-websocket-protocol", subprotocol))
        self.answered = True
        connection.write(connection.head(101, lines, None))
        self._protocol = ServerProtocol(state=State.OPEN, max_size=self.handler.max_websocket_message_bytes)
        early, self._early = bytes(self._early), bytearray()
        connection.resume()
        if early:
            self.feed(early)

    async def receive_message(self) -> str | bytes | None:
        while not self._messages:
            if self._ended or self.connection.lost:
                return None
            self._read_on()
            await self._wait()
        message, size = self._messages.popleft()
        self._waiting -= size
        return message

    async def send_text(self, text: str) -> None:
        protocol, connection = self._protocol, self.connection
        if connection.lost or protocol is None or protocol.state is not State.OPEN:
            raise client_disconnected()
        protocol.send_text(text.encode())
        self._flush()
        await connection.drained()
        if connection.lost:
            raise client_disconnected()

    async def close(self, code: int) -> None:
        self._close(code)
        while not (self._ended or self.connection.lost):  # until the client has answered the close frame
            self._messages.clear()
            self._waiting = 0
            self._read_on()
            await self._wait()

    # --- the connection calls these -------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Process received data."""
        protocol = self._protocol
        if protocol is None:
            self._early += data
            if len(self._early) > _WAITING_BYTES:
                self.connection.pause()
            return
        self._unanswered = False
        self._unparsed += len(data)
        protocol.receive_data(data)
        for event in protocol.events_received():
            assert isinstance(event, Frame)
            self._unparsed -= _frame_bytes(event)
            self._take(event, protocol)
        if protocol.state is not State.OPEN:
            self._end()
        else:
            self._count(len(self._message) + self._unparsed)
        self._flush()
        if self._waiting > _WAITING_BYTES or self.connection.writable is not None:
            self.connection.pause()
        if self._messages:
            self._wake()

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._waiting <= _WAITING_BYTES:
            self.connection.resume()

    def connection_lost(self) -> None:
        self._end()

    def check(self, now: float) -> None:
        """Close it if a message or the answer to a ping takes too long."""
        protocol, options = self._protocol, self.connection.table.options
        if protocol is None or protocol.state is not State.OPEN:
            return
        since, interval = self._unfinished_since, options.websocket_ping_interval
        if since is not None and now - since >= options.body_timeout:
            self._close(POLICY_VIOLATION, "the message took too long")
            self._end()
        elif self.connection.paused:
            self._unanswered = False  # the pong would not be read
        elif interval is not None and now >= self._ping_at:
            if self._unanswered:
                self._close(INTERNAL_ERROR, "no answer to a ping")
                self._end()
                return
            if self._ping_at:  # the first one is due after an interval
                self._unanswered = True
                protocol.send_ping(b"")
                self._flush()
            self._ping_at = now + interval

    # --- inside ---------------------------------------------------------------------------------------------

    def _take(self, frame: Frame, protocol: ServerProtocol) -> None:
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._kind, self._message = frame.opcode, bytes(frame.data)
        elif frame.opcode is Opcode.CONT:
            if type(self._message) is bytes:  # one growing buffer: small fragments would each cost an object
                self._message = bytearray(self._message)
            self._message += frame.data
        else:  # the protocol answers pings and close frames
            self.closed_by_both = self.closed_by_both or frame.opcode is Opcode.CLOSE
            return
        if not frame.fin:
            return
        data, self._message, self._unfinished_since = bytes(self._message), b"", None
        try:
            message = data.decode() if self._kind is Opcode.TEXT else data
            self._messages.append((message, len(data)))
            self._waiting += len(data)
        except UnicodeDecodeError:
            protocol.fail(INVALID_TEXT)

    def _count(self, size: int) -> None:
        """Count the ``size`` bytes of an unfinished message in the server-wide limit, and begin its time."""
        if not size:
            self._unfinished_since = None
        elif self._unfinished_since is None:
            self._unfinished_since = asyncio.get_running_loop().time()
        size = size if size > UNCOUNTED_BYTES else 0
        if size > self._counted and not self.handler.buffered.acquire(size - self._counted):
            self._close(TRY_AGAIN_LATER, "too much is buffered for other clients")
            self._end()
            return
        if size < self._counted:
            self.handler.buffered.release(self._counted - size)
        self._counted = size

    def _end(self) -> None:
        """Nothing further is received."""
        self._ended, self._message, self._unfinished_since = True, b"", None
        self.handler.buffered.release(self._counted)
        self._counted = 0
        self._wake()

    def _close(self, code: int, reason: str = "") -> None:
        protocol = self._protocol
        if protocol is not None and protocol.state is State.OPEN:
            protocol.send_close(code, reason)
            self._flush()

    def _flush(self) -> None:
        if self._protocol is not None:
            data = self._protocol.data_to_send()
            if not self.connection.lost:
                for piece in data:
                    if piece:
                        self.connection.write(piece)

    def _read_on(self) -> None:
        if self.connection.writable is None:
            self.connection.resume()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None


def _frame_bytes(frame: Frame) -> int:
    """The size of a frame of the client as it was sent: its header, the mask, the payload (RFC 6455, 5.2)."""
    size = len(frame.data)
    return size + (6 if size < 126 else 8 if size < 1 << 16 else 14)
