"""HTTP/1.1 on the event loop itself: a request is parsed, run and answered by one thread, which is woken once for it.

That is what a host with threads of its own cannot do, and what counts where calls come one by one: a gateway in front
of somebody who waits. Requests of one connection are answered one after the other; while one waits for its turn,
nothing is read. A body that nobody reads yet, and a client that takes nothing, stop the socket. The parser (llhttp, in
its strict mode) refuses what two readers could understand in two ways; after that, the connection is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, Protocol, cast
from urllib.parse import unquote

import httptools
from msgspec import field

from ....core.budget import Account
from ....drivers.pacing import poured, turn
from ....errors import RemoteProtocolError
from ....settings import HTTP_FLUSH, LARGE_ANSWER, PARSED_PIECE, READ_AHEAD, READ_IN_TURN
from ....wire.frames import too_large
from ....wire.long_results import Body, Pieces
from ...stream import shared_buffer
from .asgi import ScopeHead
from .exchange import CLOSE, EVENT_HEADERS, JSON_TYPE, SHORT_LENGTH, Exchange, Headers, gone, hold, length_of
from .http1_streams import Http1Sink

log = logging.getLogger("dovetail.http")

_REASONS: Final = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n" for one in HTTPStatus}
_REPLY: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%b\r\n%b"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_BODILESS: Final = frozenset({204, 304})


class HttpHandler(Protocol):
    """Answers HTTP requests: `HttpApp`, or the page of the inspector."""

    async def handle(self, exchange: Exchange, /) -> None: ...


class Open:
    """What the connections of one listener share."""

    def __init__(self, app: HttpHandler, scheme: str, header_bytes: int) -> None:
        self.app = app
        self.scheme = scheme
        self.header_bytes = header_bytes
        self.connections: set[Http1] = set()
        self.date = b""
        """The line of every answer that says when it was given."""
        self.closing = False
        """Nobody listens any more."""
        self.emptied: asyncio.Future[None] | None = None
        """Wants to hear that the last one has ended."""


class Http1(asyncio.BufferedProtocol):
    """One connection."""

    def __init__(self, shared: Open) -> None:
        self.idle_since: float | None = 0.0
        """Since when a head is waited for; None while there is a request."""
        self.lost = False
        self.parser: Any = httptools.HttpRequestParser(self)
        self.transport: asyncio.Transport
        self.shared = shared
        self._loop = asyncio.get_running_loop()
        self._buffer = shared_buffer()
        self._url = b""
        self._fields: list[tuple[bytes, bytes]] | None = None
        """Those of a head that has begun; None behind it: what comes there are trailers, of no use to anybody."""
        self._head_bytes = 0
        """What came since the last piece of a body, but for what came right behind that; it is bounded."""
        self._refusal = 0
        """The status for what came behind the last request and cannot be read."""
        self._arriving: Http1Exchange | None = None
        self._now: Http1Exchange | None = None
        """What is being answered."""
        self._next: deque[Http1Exchange] = deque()
        self._rest = b""
        """What was read behind those, and is still to be parsed."""
        self._deaf = False
        self._paused = False
        self.writable: asyncio.Future[None] | None = None
        """What to wait for where the client takes less than we say."""
        self._behind = False
        """What comes next waits for that, too."""
        self._left: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        near, far = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        # A Unix socket has a path, or nothing, in their place.
        self._near: tuple[str, int] | None = near[:2] if type(near) is tuple else None
        self._far: tuple[str, int] | None = far[:2] if type(far) is tuple else None
        self.idle_since = self._loop.time()
        self.shared.connections.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._parse(self._buffer[:nbytes])

    def _parse(self, data: memoryview) -> None:
        """Go on with what came, for as long as no request waits for its turn."""
        while data and not self._deaf:
            if self._next or self._rest:
                self._rest += data
                return
            piece, data = data[:PARSED_PIECE], data[PARSED_PIECE:]
            self._head_bytes += len(piece)
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade:
                self._deaf = (
                    True  # what follows is no HTTP, and it has no body; it is answered like any other
                )
            except httptools.HttpParserError:
                self._refuse(400)
            else:
                if self._head_bytes > self.shared.header_bytes:
                    self._refuse(431)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = self._deaf = True
        self.parser = None  # it holds us
        del self.transport  # so does that of TLS, and a quarter of a mebibyte
        self._next.clear()
        shared = self.shared
        shared.connections.discard(self)
        if shared.emptied is not None and not shared.connections and not shared.emptied.done():
            shared.emptied.set_result(None)
        for waiting in (self._left, self.writable):
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
        for exchange in (self._now, self._arriving):
            if exchange is not None:
                exchange.wake()
        self._arriving = None  # it holds us, too

    def pause_writing(self) -> None:
        self.writable = self._loop.create_future()

    def resume_writing(self) -> None:
        writable, self.writable = self.writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)
        if self._behind:
            self._behind = False
            self._go_on()

    def on_message_begin(self) -> None:
        self._url = b""
        self._fields = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._fields is not None:
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        fields, parser = self._fields or [], self.parser
        self._fields = None
        headers = {name.decode("latin-1"): value.decode("latin-1").strip(" \t") for name, value in fields}
        most = self.shared.header_bytes
        short = self._head_bytes + PARSED_PIECE <= most or len(b"".join(map(b"".join, fields))) <= most
        plain = short and len(headers) == len(fields)
        target, _, query = self._url.partition(b"?")
        if not target.startswith(b"/"):
            if b"://" in target:  # RFC 9112, 3.2.2: a whole URL is taken, too, and "Host" is ignored then
                headers["host"] = target.partition(b"://")[2].partition(b"/")[0].decode("latin-1")
            target = httptools.parse_url(target).path or b"/"
        path, method = target.decode("latin-1"), parser.get_method().decode()
        if "%" in path:
            path = unquote(path)
        scope: dict[str, Any] = {
            "type": "http", "transport": "http", "http_version": parser.get_http_version(),
            "scheme": self.shared.scheme, "method": method, "path": path, "root_path": "", "query_string": query,
            "headers": fields, "server": self._near, "client": self._far,
        }  # fmt: skip
        local = "" if self._near is None else self._near[0]
        self._arriving = exchange = Http1Exchange(scope, path, headers, plain, local, method, self)
        # The parser stops before the body of such a request, which would then be the next one.
        coded = "transfer-encoding" in headers
        exchange.broken = parser.should_upgrade() and ("content-length" in headers or coded)
        if coded and any(one == b"transfer-encoding" and how.lower() != b"chunked" for one, how in fields):
            exchange.broken = True  # nobody here would undo the other codings
        if self._now is None:
            self._begin(exchange)
        else:
            self._next.append(exchange)
            self.hold()

    def on_body(self, body: bytes) -> None:
        exchange = self._arriving
        if exchange is not None:
            self._head_bytes = 0
            exchange.parts.append(body)
            exchange.arrived += len(body)
            if exchange.waiter is not None:
                exchange.wake()
            elif exchange.arrived > READ_AHEAD:
                self.hold()

    def on_message_complete(self) -> None:
        exchange, self._arriving = self._arriving, None
        self._head_bytes = 0
        if exchange is not None:
            exchange.complete = not exchange.broken
            # A client of HTTP/1.0 would have to be told that it may stay.
            newer = exchange.scope["http_version"] == "1.1"
            exchange.keep = newer and self.parser.should_keep_alive() and not self.parser.should_upgrade()
            exchange.wake()

    def _begin(self, exchange: Http1Exchange) -> None:
        self._now, self.idle_since = exchange, None
        exchange.task = self._loop.create_task(self._serve(exchange))

    async def _serve(self, exchange: Http1Exchange) -> None:
        try:
            await self.shared.app.handle(exchange)
        except Exception:
            log.exception("a request failed")
        finally:
            exchange.task = None
            if not exchange.answered and not self.lost:
                self.transport.write(self.head(500, CLOSE, 0))
                self.hang_up()
            elif not exchange.over and not self.lost:
                self.transport.abort()  # an answer that broke off must not look whole
            if self._now is exchange:
                self._now = None  # each holds the other

    def finish(self, exchange: Http1Exchange) -> None:
        """It is answered; the next one's turn, if the connection goes on."""
        exchange.over = True
        self._now = None
        if self.lost:
            return
        if not exchange.complete or not exchange.keep or self.shared.closing:
            self.hang_up(unread=not exchange.complete)
        elif self.writable is not None:
            self._behind = True  # whoever takes no answers has nothing to ask
            self.hold()
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Begin what was asked next, or wait for it."""
        if self._next and self._now is None:
            self._begin(self._next.popleft())
        if self._rest and not self._next:
            rest, self._rest = self._rest, b""
            self._parse(memoryview(rest))
        if self._now is None:
            self.idle_since = self._loop.time()
            if self._refusal:
                self.transport.write(self.head(self._refusal, CLOSE, 0))
                self.hang_up(unread=True)
        if not self._next:
            self.release()

    def hang_up(self, *, unread: bool = False) -> None:
        """Close it, when what was written has left. What still comes is thrown away, for a moment: a connection with
        something unread in it is reset, and the client would not see our last words."""
        self._deaf, self._rest = True, b""
        self._next.clear()
        if unread and self.transport.can_write_eof():
            self.release()
            with suppress(OSError):  # whoever has left already cannot be told
                self.transport.write_eof()
            self._loop.call_later(HTTP_FLUSH, self.transport.abort)
        else:
            self.transport.close()

    def _refuse(self, status: int) -> None:
        """What comes cannot be read, so nothing behind it can."""
        self._deaf = True
        if self._arriving is not None:
            self._arriving.broken = True  # whoever reads it hears of it, and answers
            self._arriving.wake()
        elif self._now is not None:
            self._refusal = status  # after what is to be answered before
        else:
            self.transport.write(self.head(status, CLOSE, 0))
            self.hang_up(unread=True)

    def head(self, status: int, headers: Headers, length: int | None) -> bytes:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        if length is not None and status not in _BODILESS:
            lines += f"content-length: {length}\r\n"
        start = _REASONS.get(status) or f"HTTP/1.1 {status} \r\n"  # an author's route may have one of its own
        return f"{start}{lines}".encode("latin-1") + self.shared.date + b"\r\n"

    def hold(self) -> None:
        """Read no further."""
        if not self._paused and not self.lost:
            self._paused = True
            self.transport.pause_reading()

    def release(self) -> None:
        if self._paused and not self.lost and not self.transport.is_closing():
            self._paused = False
            self.transport.resume_reading()

    async def taken(self) -> None:
        """Return when more may be written."""
        if self.writable is not None:
            await asyncio.shield(self.writable)

    async def left(self) -> None:
        """Return when the client has hung up."""
        if not self.lost:
            if self._left is None:
                self._left = self._loop.create_future()
            await asyncio.shield(self._left)


class Http1Exchange(ScopeHead, eq=False, weakref=True):
    """An exchange on a connection of ours."""

    connection: Http1
    extra: Headers = ()
    held: int = 0
    parts: list[bytes] = field(default_factory=list[bytes])
    arrived: int = 0
    complete: bool = False
    keep: bool = True
    broken: bool = False
    answered: bool = False
    over: bool = False
    waiter: asyncio.Future[None] | None = None
    task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def read(self, limit: int, account: Account) -> bytes:
        declared = self.headers.get("content-length", "")
        if len(declared) > SHORT_LENGTH and "transfer-encoding" not in self.headers:
            hold(self, account, length_of(declared, limit))
        expected = self.headers.get("expect", "").lower() == "100-continue"
        if expected and not (self.complete or self.connection.lost) and self.scope["http_version"] == "1.1":
            self.connection.transport.write(_CONTINUE)
        due = READ_IN_TURN
        while not self.complete:
            if self.arrived > limit:
                raise too_large(limit)
            hold(self, account, self.arrived)
            if self.arrived > due:  # meanwhile nobody waits for more, so no more is read
                due = self.arrived + READ_IN_TURN
                await turn()
                continue
            if self.broken:
                raise RemoteProtocolError("invalid_request", "the body is broken")
            if self.connection.lost:
                raise gone()
            self.waiter = asyncio.get_running_loop().create_future()
            self.connection.release()
            try:
                await self.waiter
            finally:
                self.waiter = None
        if self.arrived > limit:
            raise too_large(limit)
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)

    async def answer(
        self, status: int, body: Body = b"", headers: Headers = (), kind: tuple[str, str] = JSON_TYPE
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
        data = self.connection.head(status, lines, len(body))
        if self.method == "HEAD" or status in _BODILESS:
            body = b""
        if isinstance(body, Pieces) or len(body) > LARGE_ANSWER:
            await self._pour(data, body)
        elif not self.connection.lost:
            self.connection.transport.write(data + body)
        self.connection.finish(self)

    async def _pour(self, head: bytes, body: Body) -> None:
        """Write a large body as its client takes it: what is written at once is copied, and kept, at once."""
        connection = self.connection
        if not connection.lost:
            connection.transport.write(head)
        async for piece in poured(body):
            await connection.taken()
            if connection.lost:
                return
            connection.transport.write(piece)

    def reply(self, body: Body) -> Any:
        large = isinstance(body, Pieces) or len(body) > LARGE_ANSWER
        if large or self.extra or self.answered or not (self.complete and self.keep):
            return self.answer(200, body)
        self.answered = True
        if not self.connection.lost:
            self.connection.transport.write(_REPLY % (len(body), self.connection.shared.date, body))
        self.connection.finish(self)
        return None

    def stream(self, headers: Headers = ()) -> Http1Sink:
        return Http1Sink(self, [*EVENT_HEADERS, *headers, *self.extra])

    async def disconnected(self) -> None:
        await self.connection.left()
