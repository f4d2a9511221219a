"""A server as an ASGI application: it works below any prefix, with the host's lifespan or without."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from operator import methodcaller
from typing import Any

from msgspec import Struct

from ....core.budget import Account
from ....drivers.pacing import poured, turn
from ....settings import LARGE_ANSWER, READ_IN_TURN, UNSENT_STREAM, HttpOptions
from ....wire import headers as routing
from ....wire.frames import too_large
from ....wire.long_results import Body, Pieces
from .app import HttpApp
from .connections import PeerConnections
from .exchange import (
    CLOSE,
    EVENT_HEADERS,
    GONE,
    JSON_TYPE,
    SHORT_LENGTH,
    TEXT_TYPE,
    Headers,
    HttpService,
    Living,
    gone,
    hold,
    length_of,
)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Raw = list[tuple[bytes, bytes]]

INTERNAL_ERROR = 1011
POLICY_VIOLATION = 1008


def face(service: HttpService, **options: Any) -> AsgiFace:
    """``service`` as an ASGI application; ``options`` are members of `HttpOptions`."""
    return AsgiFace(HttpApp(service, HttpOptions(**options)))


class AsgiFace:
    """What `Server.asgi` returns."""

    def __init__(self, app: HttpApp, life: Living | None = None) -> None:
        self.app = app
        self._life: Living = app.life if life is None else life
        self._header_bytes = app.service.limits.max_header_bytes

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._lifespan(receive, send)
            return
        raw: Raw = scope["headers"]
        names, values = zip(*raw, strict=True) if raw else ((), ())
        # Not every host removes the white space around a value.
        headers = dict(zip(map(_text, names), map(_stripped, map(_text, values)), strict=True))
        plain = len(headers) == len(raw) and len(b"".join(map(b"".join, raw))) <= self._header_bytes
        path = _below(scope) if scope.get("root_path") else scope["path"]
        server = scope.get("server")
        local = server[0] if server else ""
        if kind == "http":
            scope["transport"] = "http"
            exchange = AsgiExchange(scope, path, headers, plain, local, scope["method"], receive, send)
            exchange.connections = self.app.life.connections
            if b"upgrade" in names:
                # A parser may have stopped before the body, which would then be the next request.
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
        """End everything in order; calls under way get ``seconds``."""
        await self.app.life.drain(seconds)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()  # lifespan.startup
        try:
            await self._life.start()
        except Exception as error:  # noqa: BLE001  the host wants to hear of it in its own words
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown
        await self._life.stop()
        await send({"type": "lifespan.shutdown.complete"})


class ScopeHead(Struct, eq=False):
    """The head of a request or a handshake, over its scope."""

    scope: MutableMapping[str, Any]
    path: str
    headers: Mapping[str, str]
    plain: bool
    local: str
    method: str

    @property
    def prefix(self) -> str:
        return (self.scope.get("root_path") or "").rstrip("/")

    @property
    def peer(self) -> tuple[str, int] | None:
        client = self.scope.get("client")
        return (client[0], int(client[1])) if client else None

    @property
    def query(self) -> str:
        return self.scope.get("query_string", b"").decode("latin-1")

    def size(self) -> int:
        raw: Raw = self.scope["headers"]
        return len(b"".join(map(b"".join, raw)))

    def doubled(self, names: Sequence[str]) -> str | None:
        found = [name.decode("latin-1") for name, _ in self.scope["headers"]]
        return next((name for name in names if found.count(name) > 1), None)

    def routing(self) -> routing.RoutingHeaders:
        return routing.read(self.scope["headers"])


class AsgiHead(ScopeHead, eq=False):
    """It, and how to hear and speak."""

    receive: Receive
    send: Send


class AsgiExchange(AsgiHead, eq=False):
    """An exchange over ``receive`` and ``send``."""

    extra: Headers = ()
    held: int = 0
    connections: PeerConnections | None = None

    async def read(self, limit: int, account: Account) -> bytes:
        declared = self.headers.get("content-length", "")
        if len(declared) > SHORT_LENGTH:
            hold(self, account, length_of(declared, limit))
        if "transfer-encoding" in self.headers:
            declared = ""  # beside it a length means nothing
        message = await self.receive()
        body: bytes = message.get("body", b"")
        parts = [body]
        size, due = len(body), READ_IN_TURN
        while message.get("more_body") and str(size) != declared:
            # Some hosts say "more" until they have been asked once more: what was declared is all.
            if size > limit:
                raise too_large(limit)
            message = await self.receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            hold(self, account, size)
            if size > due:
                due = size + READ_IN_TURN
                await turn()
        if message["type"] == "http.disconnect":
            raise gone()
        if size > limit:
            raise too_large(limit)
        return body if len(parts) == 1 else b"".join(parts)

    async def answer(
        self, status: int, body: Body = b"", headers: Headers = (), kind: tuple[str, str] = JSON_TYPE
    ) -> None:
        lines = [(b"content-length", b"%d" % len(body))]
        if body:
            lines.append(_JSON if kind is JSON_TYPE else encoded(kind))
        if headers or self.extra:
            lines += map(encoded, (*headers, *self.extra))
        try:
            await self.send({"type": "http.response.start", "status": status, "headers": lines})
            if isinstance(body, Pieces) or len(body) > LARGE_ANSWER:
                body = await self._pour(body)
            await self.send({"type": "http.response.body", "body": body})
        except GONE:
            pass

    async def reply(self, body: Body) -> None:
        lines = [(b"content-length", b"%d" % len(body)), _JSON, *map(encoded, self.extra)]
        try:
            await self.send({"type": "http.response.start", "status": 200, "headers": lines})
            if isinstance(body, Pieces) or len(body) > LARGE_ANSWER:
                body = await self._pour(body)
            await self.send({"type": "http.response.body", "body": body})
        except GONE:
            pass

    async def _pour(self, body: Body) -> bytes:
        """Send a large body, and return what is left: a host keeps and writes in one go what it is given in one go."""
        async for piece in poured(body):
            await self.send({"type": "http.response.body", "body": piece, "more_body": True})
        return b""

    def stream(self, headers: Headers = ()) -> AsgiSink:
        return AsgiSink(self, [*_EVENTS, *map(encoded, (*headers, *self.extra))])

    async def disconnected(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass


class AsgiSink(Struct, eq=False):
    """A response in pieces."""

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
            raise gone() from None
        if len(data) > UNSENT_STREAM and exchange.connections is not None:
            await exchange.connections.taken(exchange.peer)  # hosts wait before they send, not behind it

    def take(self, data: bytes) -> bool:
        return False  # ``send`` may be anybody's, and wants a task of its own

    async def close(self) -> None:
        exchange = self.exchange
        try:
            if not self.begun:
                self.begun = True
                await exchange.send({"type": "http.response.start", "status": 200, "headers": self.head})
            await exchange.send({"type": "http.response.body", "body": b""})
        except GONE:
            pass


class AsgiSocket(AsgiHead, eq=False):
    """A WebSocket of the host's."""

    offered: Sequence[str] = ()

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
            raise gone() from None

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
            raise gone() from None

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
    """The path below the prefix this app is mounted at. Hosts differ in whether ``path`` includes it."""
    path: str = scope["path"]
    root: str = scope["root_path"].rstrip("/")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/"):
        return path[len(root) :] or "/"
    return path
