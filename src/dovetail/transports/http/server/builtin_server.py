"""The built-in HTTP/1.1 server: asyncio protocols on the httptools parser.

`HttpConnection` is one connection. It parses requests, answers them one after the other, and becomes a WebSocket when
a client upgrades. `ConnectionTable` holds the connections of one listener and enforces the limits on them:

=============================  =============================================================================
limit                          what happens when it is reached
=============================  =============================================================================
`Limits.max_header_bytes`      431, and the connection is closed
`HttpOptions.max_connections`  503 with Retry-After on the new connection, which is closed
`HttpOptions.header_timeout`   the connection is closed
`HttpOptions.keep_alive_timeout`  the connection is closed
`HttpOptions.write_timeout`    the connection is aborted
=============================  =============================================================================

`HttpOptions.body_timeout` is enforced in `body_reader` for every server. Backpressure: while requests or body bytes
wait, the connection is not read from; a response waits until the client has read what was sent before. HTTP/2 is
refused with 505: it is the job of a reverse proxy.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import httptools

from .... import extras
from ....core.limits import SharedLimit
from ....drivers.heartbeat import Heartbeat
from ....settings import HttpOptions
from ...read_buffer import shared_buffer
from .builtin_exchange import BuiltinExchange
from .http_exchange import CLOSE, HTTP_FLUSH, HTTP_TICK, TEXT_TYPE, Exchange, Headers, Socket

if TYPE_CHECKING:
    from .builtin_websocket import BuiltinWebSocket
    from .forwarded import TrustedProxies

BUSY_SECONDS: Final = 5.0
"""Retry-After of a connection beyond the maximum, in seconds."""


log = logging.getLogger("dovetail.http")

_STATUS_LINES: Final = {200: "HTTP/1.1 200 OK\r\n", 202: "HTTP/1.1 202 Accepted\r\n"}
"""Cached status lines. Most servers send no others, and importing `HTTPStatus` takes time."""
_BODILESS: Final = frozenset({204, 304})
_HTTP2_PREFACE: Final = b"PRI * HTTP/2.0"
_HTTP2_REFUSED: Final = b"this server speaks HTTP/1.1; for HTTP/2 put a reverse proxy before it\n"
_PARSED_PIECE: Final = 4 << 10
"""Bytes parsed before the header limit is checked again. Parsed requests take thirty times their size."""
_READ_AHEAD: Final = 64 << 10
"""Bytes of further requests, or of a body that is not read yet, after which the connection is not read from."""
_MAX_REFUSED: Final = 256
"""Connections beyond the maximum whose clients get time to read the refusal."""
_SECOND_PROBE: Final = 0.05
"""Seconds until a client that may have closed its connection is probed again; later probes follow with the checks."""

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def http_date(at: time.struct_time) -> str:
    """A UTC time as the ``Date`` header has it (RFC 9110, 5.6.7). `email.utils` would cost 0.4 MiB of memory."""
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    return f"{day}, {at.tm_mday:02} {month} {at.tm_year} {at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} GMT"


def _status_line(status: int) -> str:
    from http import HTTPStatus

    # A custom route may use a non-standard status.
    phrase = next((one.phrase for one in HTTPStatus if one == status), "")
    return _STATUS_LINES.setdefault(status, f"HTTP/1.1 {status} {phrase}\r\n")


class HttpHandler(Protocol):
    """Answers HTTP requests: `HttpApp`, or the page of the inspector."""

    async def handle(self, exchange: Exchange, /) -> None: ...


class WebSocketHandler(Protocol):
    """Serves WebSockets: `HttpApp`."""

    buffered: SharedLimit
    """Counts unfinished messages above 64 KiB."""
    max_websocket_message_bytes: int

    async def connect(self, socket: Socket, /) -> None: ...


class ConnectionTable:
    """The connections of one listener, with their limits and their shutdown.

    Pass `protocol` to ``create_server``; call `start` before and `close` after.
    """

    def __init__(
        self,
        handler: HttpHandler,
        scheme: str,
        options: HttpOptions,
        max_header_bytes: int,
        websockets: WebSocketHandler | None = None,
    ) -> None:
        self.handler = handler
        self.websockets = websockets
        self.scheme = scheme
        self.options = options
        self.max_header_bytes = max_header_bytes
        self.header_timeout = options.header_timeout
        self.keep_alive_timeout = options.keep_alive_timeout
        self.write_timeout = options.write_timeout
        self.open: set[HttpConnection] = set()
        self.refused: set[_TooManyConnections] = set()
        """Connections beyond the maximum, until their clients have read the refusal."""
        self.date = b""
        """The Date header line of every response."""
        self.now = 0.0
        """The time of the event loop at the last check."""
        self.closing = False
        self.max_connections = options.max_connections
        self.proxies: TrustedProxies | None = None
        """The proxies whose forwarded headers are believed."""
        if options.trusted_proxies:
            from .forwarded import TrustedProxies  # most servers have none

            self.proxies = TrustedProxies(options.trusted_proxies)
        self._empty: asyncio.Future[None] | None = None
        times = (self.header_timeout, self.keep_alive_timeout, self.write_timeout, options.body_timeout)
        self._heartbeat = Heartbeat(min(HTTP_TICK, *(seconds / 2 for seconds in times)), self._check)

    def protocol(self) -> asyncio.BaseProtocol:
        """The protocol of a new connection."""
        return HttpConnection(self)

    def start(self) -> None:
        """Check all connections regularly from now on."""
        self._check()
        self._heartbeat.start()

    def _check(self) -> bool:
        self.now = asyncio.get_running_loop().time()
        self.date = f"date: {http_date(time.gmtime())}\r\n".encode()
        for connection in list(self.open):
            connection.check(self.now)
        return True

    async def close(self) -> None:
        """Close idle connections; return when all others have answered their last request."""
        self.closing = True
        for connection in list(self.open):
            if connection.idle:
                connection.close()
        if self.open:
            self._empty = asyncio.get_running_loop().create_future()
            await self._empty

    def abort(self) -> None:
        """End all connections now."""
        self._heartbeat.stop()
        for connection in [*self.open, *self.refused]:
            connection.transport.abort()

    def discard(self, connection: HttpConnection) -> None:
        self.open.discard(connection)
        if self._empty is not None and not self.open and not self._empty.done():
            self._empty.set_result(None)


class HttpConnection(asyncio.BufferedProtocol):
    """One connection. `BuiltinExchange` and `BuiltinWebSocket` write to it."""

    def __init__(self, table: ConnectionTable) -> None:
        self.lost = False
        self.parser: Any = httptools.HttpRequestParser(self)
        self.transport: asyncio.Transport
        self.table = table
        self.writable: asyncio.Future[None] | None = None
        """Pending while the write buffer is above its high-water mark."""
        self.written = 0
        """Bytes passed to the transport."""
        self._loop = asyncio.get_running_loop()
        self._buffer = shared_buffer()
        self._url = b""
        self._fields: list[tuple[bytes, bytes]] | None = None
        """The header fields of an unfinished header block. None outside of one: trailers are dropped."""
        self._header_bytes = 0
        """Bytes since the last piece of a body: header block, chunk sizes, trailers."""
        self._deadline: float | None = None
        """The time limit for a complete header block; None while a request is served."""
        self._refusal: tuple[int, bytes] | None = None
        """The response to unreadable bytes after the current request."""
        self._arriving: BuiltinExchange | None = None
        self._current: BuiltinExchange | None = None
        self._next: deque[BuiltinExchange] = deque()
        self._upgrade: BuiltinWebSocket | None = None
        """A WebSocket whose handshake was received; its frames follow in the stream."""
        self._websocket: BuiltinWebSocket | None = None
        """The WebSocket, once it is served."""
        self._rest = bytearray()
        """Bytes after the requests in ``_next``, not parsed yet."""
        self._discarding = False
        """Further received data is dropped."""
        self.eof = False
        """The client has closed its sending side. Requests that have arrived are still answered."""
        self._paused = False
        self._resume_later = False
        """The next request is served once ``writable`` is done."""
        self._taken = 0
        self._taken_at = 0.0
        """Bytes of ``written`` that the kernel had accepted at the last progress, and its time."""
        self._disconnected: asyncio.Future[None] | None = None

    # --- asyncio callbacks --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        local, remote = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        # A Unix socket has a path or nothing here.
        self._local: tuple[str, int] | None = local[:2] if type(local) is tuple else None
        self._remote: tuple[str, int] | None = remote[:2] if type(remote) is tuple else None
        self._certificate: Any = transport.get_extra_info("peercert")
        """The verified certificate of the client, as the `ssl` module returns it; None without one."""
        table = self.table
        if len(table.open) >= table.max_connections:
            refused = _TooManyConnections(table)
            self.transport.set_protocol(refused)
            refused.connection_made(transport)
            return
        self._deadline = self._loop.time() + table.header_timeout
        table.open.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._upgrade is None:
            self._parse(self._buffer[:nbytes])
        else:
            self._upgrade.feed(self._buffer[:nbytes].tobytes())

    def eof_received(self) -> bool:
        """The client has closed its sending side, or the whole connection: TCP reports both in the same way.

        Returns whether the connection stays open, so that the requests that have arrived are answered.
        """
        exchange = self._current
        if exchange is None or self._upgrade is not None or not self.transport.can_write_eof():
            return False  # TLS cannot be closed in one direction
        if exchange.streaming and exchange.method == "GET":
            return False  # this stream has no end: only a disconnect ends it
        self.eof = True
        if self._arriving is not None:
            self._refuse(400)
        self._probe()
        self._loop.call_later(_SECOND_PROBE, self._probe)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = self._discarding = True
        self.parser = None  # it references this object
        del self.transport  # so does that of TLS, with its buffers
        self._next.clear()
        self.table.discard(self)
        for future in (self._disconnected, self.writable):
            if future is not None and not future.done():
                future.set_result(None)
        for exchange in (self._current, self._arriving):
            if exchange is not None:
                exchange.wake()
        if self._upgrade is not None:
            self._upgrade.connection_lost()
        self._arriving = self._upgrade = self._websocket = None

    def pause_writing(self) -> None:
        self.writable = self._loop.create_future()

    def resume_writing(self) -> None:
        writable, self.writable = self.writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)
        if self._upgrade is not None:
            self._upgrade.resume_writing()
        elif self._resume_later:
            self._resume_later = False
            self._next_request()

    # --- parser callbacks -----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._url = b""
        self._fields = []
        if self._deadline is not None:
            self._deadline = self.table.now + self.table.header_timeout

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._fields is not None:
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        fields, parser = self._fields or [], self.parser
        self._fields = None
        headers = {name.decode("latin-1"): value.decode("latin-1").strip(" \t") for name, value in fields}
        limit = self.table.max_header_bytes
        short = self._header_bytes + _PARSED_PIECE <= limit or len(b"".join(map(b"".join, fields))) <= limit
        plain = short and len(headers) == len(fields)
        target, _, query = self._url.partition(b"?")
        if not target.startswith(b"/"):
            if b"://" in target:  # RFC 9112, 3.2.2: accept the absolute form and ignore Host
                headers["host"] = target.partition(b"://")[2].partition(b"/")[0].decode("latin-1")
            target = httptools.parse_url(target).path or b"/"
        path, method = target.decode("latin-1"), parser.get_method().decode()
        if "%" in path:
            from urllib.parse import unquote  # it takes time to load

            path = unquote(path)
        scope: dict[str, Any] = {
            "type": "http", "transport": "http", "http_version": parser.get_http_version(),
            "scheme": self.table.scheme, "method": method, "path": path, "root_path": "", "query_string": query,
            "headers": fields, "server": self._local, "client": self._remote,
        }  # fmt: skip
        if self._certificate:
            scope["peer_certificate"] = self._certificate
        if self.table.proxies is not None:
            self.table.proxies.apply(scope)
        local = "" if self._local is None else self._local[0]
        exchange = BuiltinExchange(scope, path, headers, plain, local, method, self)
        coded, upgrade = "transfer-encoding" in headers, parser.should_upgrade()
        # The parser does not read the body of an upgrade request: it would become the next request.
        exchange.broken = upgrade and ("content-length" in headers or coded)
        if coded and any(one == b"transfer-encoding" and how.lower() != b"chunked" for one, how in fields):
            exchange.broken = True  # only chunked is decoded
        websocket = headers.get("upgrade", "").lower() == "websocket" and scope["http_version"] == "1.1"
        if upgrade and websocket and not exchange.broken:
            self._upgrade = self._handshake(exchange)
            if self._upgrade is not None:
                return
        self._arriving = exchange
        if self._current is None:
            self._begin(exchange)
        else:
            self._next.append(exchange)

    def on_body(self, body: bytes) -> None:
        exchange = self._arriving
        if exchange is not None:
            self._header_bytes = 0
            exchange.arrived += len(body)
            if exchange.body:
                exchange.append(body)
            else:
                exchange.body = body
            if exchange.waiter is not None:
                exchange.wake()
            elif exchange.arrived > _READ_AHEAD:
                self.pause()

    def on_message_complete(self) -> None:
        exchange, self._arriving = self._arriving, None
        self._header_bytes = 0
        if exchange is not None:
            exchange.complete = not exchange.broken
            # A client of HTTP/1.0 would need "connection: keep-alive" in the response.
            newer = exchange.scope["http_version"] == "1.1"
            exchange.keep = newer and self.parser.should_keep_alive() and not self.parser.should_upgrade()
            exchange.wake()

    # --- one request after the other ------------------------------------------------------------------------

    def _parse(self, data: memoryview) -> None:
        """Parse received data, unless requests wait already: then store it for later."""
        while data and not self._discarding:
            if self._next or self._rest:
                self._rest += data
                if len(self._rest) > _READ_AHEAD:
                    self.pause()
                return
            piece, data = data[:_PARSED_PIECE], data[_PARSED_PIECE:]
            self._header_bytes += len(piece)
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade as upgrade:
                if self._upgrade is not None:
                    self._upgrade.feed(piece[upgrade.args[0] :].tobytes() + data.tobytes())
                    if self._current is None:
                        self._begin_websocket()
                    return
                self._discarding = (
                    True  # another protocol: it is answered as plain HTTP, and what follows is not
                )
            except httptools.HttpParserError:
                http2 = piece[: len(_HTTP2_PREFACE)].tobytes() == _HTTP2_PREFACE
                self._refuse(505, _HTTP2_REFUSED) if http2 else self._refuse(400)
            else:
                if self._header_bytes > self.table.max_header_bytes:
                    self._refuse(431)

    def _begin(self, exchange: BuiltinExchange) -> None:
        self._current, self._deadline = exchange, None
        exchange.task = self._loop.create_task(self._serve(exchange))

    async def _serve(self, exchange: BuiltinExchange) -> None:
        try:
            await self.table.handler.handle(exchange)
        except Exception:
            log.exception("request failed")
        finally:
            exchange.task = None
            if not exchange.answered and not self.lost:
                self.write(self.head(500, CLOSE, 0))
                self.close()
            elif not exchange.over and not self.lost:
                self.transport.abort()  # a response that broke off must not look complete
            if self._current is exchange:
                self._current = None  # they reference each other

    def finish(self, exchange: BuiltinExchange) -> None:
        """The response to ``http_exchange`` is complete: serve the next request, or close the connection."""
        exchange.over = True
        self._current = None
        if self.lost:
            return
        if not exchange.complete or not exchange.keep or self.table.closing:
            self.close(unread=not exchange.complete)
        elif self.writable is not None:
            self._resume_later = True  # a client that reads no responses gets no further ones
            self.pause()
        else:
            self._next_request()

    def _next_request(self) -> None:
        """Serve the next request that has arrived, or wait for one."""
        if self._next and self._current is None:
            self._begin(self._next.popleft())
        if self._rest and not self._next:
            rest, self._rest = self._rest, bytearray()
            self._parse(memoryview(rest))
        if self._current is None:
            if self._upgrade is not None:
                self._begin_websocket()
                return
            table = self.table
            self._deadline = table.now + (
                table.keep_alive_timeout if self._fields is None else table.header_timeout
            )
            if self._refusal is not None:
                self._answer_and_close(*self._refusal)
            elif self.eof:
                self.close()
        if not self._next and self._paused:
            self.resume()

    @property
    def idle(self) -> bool:
        """No request is being served."""
        return self._deadline is not None

    def _probe(self) -> None:
        """Find out whether the client only closed its sending side, or the whole connection.

        A socket that was closed answers data with a reset, and the next write reports it.
        """
        exchange = self._current
        if self.eof and exchange is not None and not self.lost and self.writable is None:
            self.write(exchange.filler())

    def close(self, *, unread: bool = False) -> None:
        """Close the connection once everything is written.

        If the client may still be sending (``unread``), read and drop for a moment: closing a socket with unread bytes
        resets it, and the client would lose the response.
        """
        self._discarding = True
        self._rest.clear()
        self._next.clear()
        if unread and self.transport.can_write_eof():
            self.resume()
            with suppress(OSError):  # the client has closed it
                self.transport.write_eof()
            self._loop.call_later(HTTP_FLUSH, self.transport.abort)
        else:
            self.transport.close()

    def _refuse(self, status: int, body: bytes = b"") -> None:
        """Refuse unreadable bytes; later bytes cannot be parsed either."""
        self._discarding = True
        if self._arriving is not None:
            self._arriving.broken = True  # its reader gets an error, and answers
            self._arriving.wake()
        elif self._current is not None:
            self._refusal = status, body  # once the current request is answered
        else:
            self._answer_and_close(status, body)

    def _answer_and_close(self, status: int, body: bytes = b"") -> None:
        lines = (TEXT_TYPE, *CLOSE) if body else CLOSE
        self.write(self.head(status, lines, len(body)) + body)
        self.close(unread=True)

    # --- WebSocket ------------------------------------------------------------------------------------------

    def _handshake(self, exchange: BuiltinExchange) -> BuiltinWebSocket | None:
        """The WebSocket that a request upgrades to; None if the package for it is not installed."""
        if self.table.websockets is None:
            return None
        try:
            from .builtin_websocket import BuiltinWebSocket
        except ImportError:
            log.warning(
                "WebSocket refused reason=%s", extras.missing("websockets", "serving WebSockets").message
            )
            return None
        exchange.scope["type"] = exchange.scope["transport"] = "websocket"
        return BuiltinWebSocket(
            exchange.scope,
            exchange.path,
            exchange.headers,
            exchange.plain,
            exchange.local,
            exchange.method,
            self,
            self.table.websockets,
        )

    def _begin_websocket(self) -> None:
        socket, begun = self._upgrade, self._websocket
        if socket is None or begun is not None:
            return
        self._websocket = socket
        self._deadline = None
        socket.task = self._loop.create_task(self._serve_websocket(socket))

    async def _serve_websocket(self, socket: BuiltinWebSocket) -> None:
        try:
            await socket.handler.connect(socket)
        except Exception:
            log.exception("WebSocket failed")
        finally:
            socket.task = None
            if not self.lost and not self.transport.is_closing():
                if not socket.answered:
                    self.write(self.head(500, CLOSE, 0))
                self.close(unread=not socket.closed_by_both)

    # --- reading, writing, waiting --------------------------------------------------------------------------

    def check(self, now: float) -> None:
        """Close the connection if one of its times is over."""
        if self._deadline is not None and now >= self._deadline:
            self._deadline = None
            self.close()
        waiting = self.transport.get_write_buffer_size()
        taken = self.written - waiting
        if not waiting or taken > self._taken:
            self._taken, self._taken_at = taken, now
        elif now - self._taken_at >= self.table.write_timeout:
            self.transport.abort()
            return
        if self._websocket is not None:
            self._websocket.check(now)
        self._probe()

    def head(self, status: int, headers: Headers, length: int | None) -> bytes:
        """The status line and the header block of a response."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        if length is not None and status not in _BODILESS:
            lines += f"content-length: {length}\r\n"
        start = _STATUS_LINES.get(status) or _status_line(status)
        return f"{start}{lines}".encode("latin-1") + self.table.date + b"\r\n"

    def write(self, data: bytes | memoryview) -> None:
        self.written += len(data)
        self.transport.write(data)

    def pause(self) -> None:
        """Read no further."""
        if not self._paused and not self.lost:
            self._paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        if self._paused and not (self.eof or self.lost or self.transport.is_closing()):
            self._paused = False
            self.transport.resume_reading()

    @property
    def paused(self) -> bool:
        """Nothing is read."""
        return self._paused

    async def drained(self) -> None:
        """Return when the write buffer is below its high-water mark, or the connection is lost."""
        if self.writable is not None:
            await asyncio.shield(self.writable)

    async def disconnected(self) -> None:
        """Return when the connection is lost."""
        if not self.lost:
            if self._disconnected is None:
                self._disconnected = self._loop.create_future()
            await asyncio.shield(self._disconnected)


class _TooManyConnections(asyncio.Protocol):
    """A connection beyond `HttpOptions.max_connections`."""

    def __init__(self, table: ConnectionTable) -> None:
        self._table = table
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = opened = cast("asyncio.Transport", transport)
        lines = f"retry-after: {BUSY_SECONDS:.0f}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        opened.write((_status_line(503) + lines).encode())
        if opened.can_write_eof() and len(self._table.refused) < _MAX_REFUSED:
            # Closing a socket with unread bytes resets it, and the client would lose the response.
            self._table.refused.add(self)
            opened.write_eof()
            asyncio.get_running_loop().call_later(HTTP_FLUSH, opened.abort)
        else:
            opened.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.refused.discard(self)
