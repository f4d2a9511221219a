"""A server as an ASGI application: it works at any prefix, with or without the host's lifespan events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from operator import methodcaller
from typing import Any

from msgspec import Struct

from ....core.limits import UNCOUNTED_BYTES, SharedLimit
from ....settings import HttpOptions
from ....wire.frames import too_large
from .app import HttpApp
from .http_exchange import (
    CLOSE,
    EVENT_HEADERS,
    GONE,
    JSON_TYPE,
    SHORT_LENGTH,
    TEXT_TYPE,
    Headers,
    HttpService,
    ScopeHeaders,
    client_disconnected,
    length_of,
    reserve,
)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Raw = list[tuple[bytes, bytes]]

INTERNAL_ERROR = 1011
POLICY_VIOLATION = 1008


def asgi_app(service: HttpService, **options: Any) -> AsgiApp:
    """Wrap ``service`` in an ASGI application; ``options`` are members of `HttpOptions`."""
    return AsgiApp(HttpApp(service, HttpOptions(**options)))


class AsgiApp:
    """The ASGI application that `Server.asgi` returns.

    It can be started repeatedly, in one event loop after the other.
    """

    def __init__(self, app: HttpApp) -> None:
        self.app = app
        self._header_bytes = app.service.limits.max_header_bytes

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        kind, state = scope["type"], self.app.state
        if state.started and (state.stopped or state.loop is not asyncio.get_running_loop()):
            # The app was shut down, or its event loop was closed together with all connections and sessions.
            self.app = HttpApp(self.app.service, self.app.options)
        if kind == "lifespan":
            await self._lifespan(receive, send)
            return
        raw: Raw = scope["headers"]
        names, values = zip(*raw, strict=True) if raw else ((), ())
        # Some hosts do not strip white space around values.
        headers = dict(zip(map(_text, names), map(_stripped, map(_text, values)), strict=True))
        plain = len(headers) == len(raw) and len(b"".join(map(b"".join, raw))) <= self._header_bytes
        path = _below(scope) if scope.get("root_path") else scope["path"]
        server = scope.get("server")
        local = server[0] if server else ""
        if kind == "http":
            scope["transport"] = "http"
            exchange = AsgiExchange(scope, path, headers, plain, local, scope["method"], receive, send)
            if b"upgrade" in names:
                # Some parsers stop before the body, which would be read as the next request.
                await exchange.answer(400, b"only WebSockets are upgraded to", CLOSE, TEXT_TYPE)
                return
            await self.app.handle(exchange)
        elif kind == "websocket":
            scope["transport"] = "websocket"
            offered: list[str] = scope.get("subprotocols") or []
            await self.app.connect(
                AsgiSocket(scope, path, headers, plain, local, "GET", receive, send, offered)
            )

    async def drain(self, seconds: float) -> None:
        """Shut down gracefully; running calls get ``seconds``."""
        await self.app.state.drain(seconds)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()  # lifespan.startup
        try:
            await self.app.state.start()
        except Exception as error:  # noqa: BLE001  the ASGI server reports it
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown
        await self.app.state.stop()
        await send({"type": "lifespan.shutdown.complete"})


class AsgiHeaders(ScopeHeaders, eq=False):
    """A header block with the ASGI callables."""

    receive: Receive
    send: Send


class AsgiExchange(AsgiHeaders, eq=False):
    """An exchange over ``receive`` and ``send``."""

    extra: Headers = ()
    held: int = 0
    lost: bool = False

    async def read(self, limit: int, buffered: SharedLimit) -> bytes:
        declared = self.headers.get("content-length", "")
        if len(declared) > SHORT_LENGTH:
            reserve(self, buffered, length_of(declared, limit))
        if "transfer-encoding" in self.headers:
            declared = ""  # a Content-Length next to Transfer-Encoding is ignored
        message = await self.receive()
        body: bytes = message.get("body", b"")
        parts = bytearray(body) if message.get("more_body") else body
        size = len(body)
        while message.get("more_body") and str(size) != declared:
            # Some hosts report more data until asked once more; the declared length decides.
            if size > limit:
                raise too_large(limit)
            message = await self.receive()
            parts += message.get("body", b"")
            size = len(parts)
            reserve(self, buffered, size)
        if message["type"] == "http.disconnect":
            raise client_disconnected()
        if size > limit:
            raise too_large(limit)
        return bytes(parts)

    async def answer(
        self, status: int, body: bytes = b"", headers: Headers = (), kind: tuple[str, str] = JSON_TYPE
    ) -> None:
        lines = [(b"content-length", b"%d" % len(body))]
        if body:
            lines.append(_JSON if kind is JSON_TYPE else encoded(kind))
        if headers or self.extra:
            lines += map(encoded, (*headers, *self.extra))
        try:
            await self.send({"type": "http.response.start", "status": status, "headers": lines})
            if len(body) > UNCOUNTED_BYTES:
                body = await self._send_pieces(body)
            await self.send({"type": "http.response.body", "body": body})
        except GONE:
            pass

    async def reply(self, body: bytes) -> None:
        lines = [(b"content-length", b"%d" % len(body)), _JSON, *map(encoded, self.extra)]
        try:
            await self.send({"type": "http.response.start", "status": 200, "headers": lines})
            if len(body) > UNCOUNTED_BYTES:
                body = await self._send_pieces(body)
            await self.send({"type": "http.response.body", "body": body})
        except GONE:
            pass

    async def _send_pieces(self, body: bytes) -> bytes:
        """Send a large body in pieces, waiting for the client in between. Returns the last piece."""
        begin = 0
        while len(body) - begin > UNCOUNTED_BYTES:
            piece = body[begin : begin + UNCOUNTED_BYTES]
            await self.send({"type": "http.response.body", "body": piece, "more_body": True})
            begin += UNCOUNTED_BYTES
        return body[begin:]

    def stream(self, headers: Headers = ()) -> AsgiSink:
        return AsgiSink(self, [*_EVENTS, *map(encoded, (*headers, *self.extra))])

    async def disconnected(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.lost = True


class AsgiSink(Struct, eq=False):
    """A response body written in pieces."""

    exchange: AsgiExchange
    head: Raw
    begun: bool = False

    async def write(self, data: bytes) -> None:
        exchange = self.exchange
        try:
            if not self.begun:
                self.begun = True
                await exchange.send({"type": "http.response.start", "status": 200, "headers": self.head})
            await exchange.send({"type": "http.response.body", "body": data, "more_body": True})
        except GONE:
            raise client_disconnected() from None

    def take(self, data: bytes) -> bool:
        return False  # ``send`` may have to wait

    async def close(self) -> None:
        exchange = self.exchange
        try:
            if not self.begun:
                self.begun = True
                await exchange.send({"type": "http.response.start", "status": 200, "headers": self.head})
            await exchange.send({"type": "http.response.body", "body": b""})
        except GONE:
            pass


class AsgiSocket(AsgiHeaders, eq=False):
    """A WebSocket of an ASGI server."""

    offered: Sequence[str] = ()
    handshake_problem: str | None = None
    """The ASGI server has checked the handshake. (That of `starlette.testclient` has no valid key.)"""

    async def refuse(self, status: int, reason: str, headers: Headers = ()) -> None:
        await self.receive()  # websocket.connect
        if "websocket.http.response" not in (self.scope.get("extensions") or {}):
            code = INTERNAL_ERROR if status == 500 else POLICY_VIOLATION
            await self.send({"type": "websocket.close", "code": code, "reason": reason})
            return
        body = reason.encode()
        head = [encoded(TEXT_TYPE), (b"content-length", b"%d" % len(body)), *map(encoded, headers)]
        await self.send({"type": "websocket.http.response.start", "status": status, "headers": head})
        await self.send({"type": "websocket.http.response.body", "body": body})

    async def accept(self, subprotocol: str | None) -> None:
        await self.receive()  # websocket.connect
        try:
            await self.send({"type": "websocket.accept", "subprotocol": subprotocol})
        except GONE:
            raise client_disconnected() from None

    async def receive_message(self) -> str | bytes | None:
        message = await self.receive()
        if message["type"] == "websocket.disconnect":
            return None
        text: str | None = message.get("text")
        return message.get("bytes", b"") if text is None else text

    async def send_text(self, text: str) -> None:
        try:
            await self.send({"type": "websocket.send", "text": text})
        except GONE:
            raise client_disconnected() from None

    async def close(self, code: int) -> None:
        try:
            await self.send({"type": "websocket.close", "code": code})
        except GONE:
            pass


def encoded(line: tuple[str, str]) -> tuple[bytes, bytes]:
    return line[0].encode("latin-1"), line[1].encode("latin-1")


_JSON = encoded(JSON_TYPE)
_EVENTS = [encoded(line) for line in EVENT_HEADERS]
_text = methodcaller("decode", "latin-1")
_stripped = methodcaller("strip", " \t")


def _below(scope: MutableMapping[str, Any]) -> str:
    """Return the path below the mount prefix. Hosts differ in whether ``path`` includes it."""
    path: str = scope["path"]
    root: str = scope["root_path"].rstrip("/")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/"):
        return path[len(root) :] or "/"
    return path
