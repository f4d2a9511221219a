"""One request on the built-in server, and its response: whole, or a stream in chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from ....core.limits import UNCOUNTED_BYTES, SharedLimit
from ....errors import RemoteProtocolError
from ....wire.frames import too_large
from .http_exchange import (
    CLOSE,
    EVENT_HEADERS,
    JSON_TYPE,
    SHORT_LENGTH,
    Headers,
    ScopeHeaders,
    client_disconnected,
    length_of,
    reserve,
)

if TYPE_CHECKING:
    from .builtin_server import HttpConnection

_REPLY: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%b\r\n%b"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_COMMENT_CHUNK: Final = b"3\r\n:\n\n\r\n"
_NO_BODY: Final = frozenset({204, 304})
_WRITTEN_PIECE: Final = 256 << 10
"""Bytes of a large response that are written at once; the next piece waits until the client has read."""


class BuiltinExchange(ScopeHeaders, eq=False, weakref=True):
    """The `Exchange` of a connection."""

    connection: HttpConnection
    extra: Headers = ()
    held: int = 0
    body: bytes | bytearray = b""
    arrived: int = 0
    complete: bool = False
    """The whole request has arrived."""
    keep: bool = True
    """The connection may serve another request."""
    broken: bool = False
    answered: bool = False
    streaming: bool = False
    """The response is an event stream in chunks."""
    over: bool = False
    waiter: asyncio.Future[None] | None = None
    task: asyncio.Task[None] | None = None

    def append(self, piece: bytes) -> None:
        """Take a further piece of the body."""
        if type(self.body) is bytes:  # one growing buffer: small chunks would each cost an object
            self.body = bytearray(self.body)
        self.body += piece

    def filler(self) -> bytes:
        """Bytes that the client skips: an interim response, or a comment in an event stream. Empty if none fit here."""
        if self.streaming:
            return _COMMENT_CHUNK
        return b"" if self.answered or self.scope["http_version"] != "1.1" else _CONTINUE

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def read(self, limit: int, buffered: SharedLimit) -> bytes:
        declared = self.headers.get("content-length", "")
        if len(declared) > SHORT_LENGTH and "transfer-encoding" not in self.headers:
            reserve(self, buffered, length_of(declared, limit))
        expected = self.headers.get("expect", "").lower() == "100-continue"
        if expected and not (self.complete or self.connection.lost) and self.scope["http_version"] == "1.1":
            self.connection.write(_CONTINUE)
        while not self.complete:
            if self.arrived > limit:
                raise too_large(limit)
            reserve(self, buffered, self.arrived)
            if self.broken:
                raise RemoteProtocolError("invalid_request", "the body is not valid HTTP")
            if self.connection.lost:
                raise client_disconnected()
            self.waiter = asyncio.get_running_loop().create_future()
            self.connection.resume()
            try:
                await self.waiter
            finally:
                self.waiter = None
        if self.arrived > limit:
            raise too_large(limit)
        body, self.body = self.body, b""
        return body if type(body) is bytes else bytes(body)

    async def answer(
        self, status: int, body: bytes = b"", headers: Headers = (), kind: tuple[str, str] = JSON_TYPE
    ) -> None:
        if self.answered:
            return
        self.answered = True
        lines = [*headers, *self.extra]
        if body:
            lines.insert(0, kind)
        if CLOSE[0] in lines:
            self.keep = False
        elif not (self.complete and self.keep):
            lines += CLOSE
        head = self.connection.head(status, lines, len(body))
        if self.method == "HEAD" or status in _NO_BODY:
            body = b""
        if len(body) > UNCOUNTED_BYTES:
            await self._write_large(head, body)
        elif not self.connection.lost:
            self.connection.write(head + body)
        self.connection.finish(self)

    async def _write_large(self, head: bytes, body: bytes) -> None:
        """Write a body piece by piece, as the client reads it; return when the write buffer has emptied."""
        connection, view = self.connection, memoryview(body)
        if not connection.lost:
            connection.write(head)
        for begin in range(0, len(body), _WRITTEN_PIECE):
            if connection.lost:
                return
            connection.write(view[begin : begin + _WRITTEN_PIECE])
            await connection.drained()

    def reply(self, body: bytes) -> Awaitable[None] | None:
        connection = self.connection
        if self.extra or self.answered or not (self.complete and self.keep) or len(body) > UNCOUNTED_BYTES:
            return self.answer(200, body)
        self.answered = True
        if not connection.lost:
            data = _REPLY % (len(body), connection.table.date, body)
            connection.written += len(data)  # `write`, inlined
            connection.transport.write(data)
        connection.finish(self)
        return None

    def stream(self, headers: Headers = ()) -> BuiltinSink:
        return BuiltinSink(self, [*EVENT_HEADERS, *headers, *self.extra])

    @property
    def lost(self) -> bool:
        return self.connection.lost or self.connection.eof

    async def disconnected(self) -> None:
        await self.connection.disconnected()


class BuiltinSink:
    """A response in pieces: chunked, or until the connection closes for a client of HTTP/1.0."""

    def __init__(self, exchange: BuiltinExchange, headers: list[tuple[str, str]]) -> None:
        self._exchange = exchange
        self._connection = exchange.connection
        self._chunked = exchange.scope["http_version"] == "1.1"
        if self._chunked:
            headers.append(("transfer-encoding", "chunked"))
        else:
            exchange.keep = False
        if not exchange.complete or not exchange.keep:
            headers += CLOSE
        self._headers = headers

    def take(self, data: bytes) -> bool:
        connection = self._connection
        if connection.lost or self._exchange.over:
            raise client_disconnected()
        if connection.writable is not None or len(data) > _WRITTEN_PIECE:
            return False
        self._write(data)
        return True

    async def write(self, data: bytes) -> None:
        await self._connection.drained()
        if self._connection.lost or self._exchange.over:
            raise client_disconnected()
        self._write(data)
        await self._connection.drained()

    async def close(self) -> None:
        exchange, connection = self._exchange, self._connection
        if exchange.over:
            return
        if not connection.lost:
            self._write(b"")
            if self._chunked:
                connection.write(b"0\r\n\r\n")
        connection.finish(exchange)

    def _write(self, data: bytes) -> None:
        if self._chunked and data:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if not self._exchange.answered:
            self._exchange.answered = True
            self._exchange.streaming = self._chunked
            data = self._connection.head(200, self._headers, None) + data
        if data:
            self._connection.written += len(data)  # `write`, inlined
            self._connection.transport.write(data)
