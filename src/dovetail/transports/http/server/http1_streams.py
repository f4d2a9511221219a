"""Responses in pieces, as `http1` writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....settings import UNSENT_STREAM
from .exchange import CLOSE, gone

if TYPE_CHECKING:
    from .http1 import Http1Exchange


class Http1Sink:
    """A response in pieces: chunks, or up to the end of the connection for a client of HTTP/1.0."""

    def __init__(self, exchange: Http1Exchange, headers: list[tuple[str, str]]) -> None:
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
            raise gone()
        if connection.writable is not None or len(data) > UNSENT_STREAM:
            return False  # nobody would know whether it is taken
        self._write(data)
        return True

    async def write(self, data: bytes) -> None:
        await self._connection.taken()
        if self._connection.lost or self._exchange.over:
            raise gone()
        self._write(data)
        await self._connection.taken()

    async def close(self) -> None:
        exchange, connection = self._exchange, self._connection
        if exchange.over:
            return
        if not connection.lost:
            self._write(b"")
            if self._chunked:
                connection.transport.write(b"0\r\n\r\n")
        connection.finish(exchange)

    def _write(self, data: bytes) -> None:
        if self._chunked and data:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if not self._exchange.answered:
            self._exchange.answered = True
            data = self._connection.head(200, self._headers, None) + data
        if data:
            self._connection.transport.write(data)
