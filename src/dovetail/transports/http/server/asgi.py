"""A server as an ASGI application: it works below any prefix, with the host's lifespan or without."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, MutableMapping, Sequence
from typing import Any

from msgspec import Struct

from ....errors import TransportError
from ....settings import HttpOptions
from ....wire import headers as routing
from ....wire.frames import too_large
from .app import HttpApp
from .exchange import EVENT_HEADERS, JSON_TYPE, TEXT_TYPE, Headers, HttpService

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Raw = list[tuple[bytes, bytes]]

GONE = (OSError, RuntimeError)
"""How hosts say that the client has gone, or that everything has been said."""
INTERNAL_ERROR = 1011
POLICY_VIOLATION = 1008


def face(service: HttpService, **options: Any) -> AsgiFace:
    """``service`` as an ASGI application; ``options`` are members of `HttpOptions`."""
    return AsgiFace(HttpApp(service, HttpOptions(**options)))


class AsgiFace:
    """What `Server.asgi` returns."""

    def __init__(self, app: HttpApp) -> None:
        self.app = app
        self._header_bytes = app.service.limits.header_bytes

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._lifespan(receive, send)
            return
        raw: Raw = scope["headers"]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
        plain = len(headers) == len(raw) and len(b"".join(map(b"".join, raw))) <= self._header_bytes
        path = _below(scope) if scope.get("root_path") else scope["path"]
        if kind == "http":
            scope["transport"] = "http"
            exchange = AsgiExchange(
                scope, path, headers, plain, scope.get("server"), receive, send, scope["method"]
            )
            await self.app.handle(exchange)
        elif kind == "websocket":
            scope["transport"] = "websocket"
            offered: list[str] = scope.get("subprotocols") or []
            socket = AsgiSocket(scope, path, headers, plain, scope.get("server"), receive, send, offered)
            await self.app.connect(socket)

    async def drain(self, seconds: float) -> None:
        """End everything in order; calls under way get ``seconds``."""
        await self.app.life.drain(seconds)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        life = self.app.life
        await receive()  # lifespan.startup
        try:
            await life.start()
        except Exception as error:  # noqa: BLE001  the host wants to hear of it in its own words
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown
        await life.stop()
        await send({"type": "lifespan.shutdown.complete"})


class AsgiHead(Struct, eq=False):
    """A request or a handshake, and how to hear and speak."""

    scope: MutableMapping[str, Any]
    path: str
    headers: Mapping[str, str]
    plain: bool
    server: Hashable
    receive: Receive
    send: Send

    @property
    def prefix(self) -> str:
        return (self.scope.get("root_path") or "").rstrip("/")

    @property
    def query(self) -> str:
        return self.scope.get("query_string", b"").decode("latin-1")

    @property
    def local(self) -> str | None:
        server = self.scope.get("server")
        return server[0] if server else None

    def size(self) -> int:
        raw: Raw = self.scope["headers"]
        return len(b"".join(map(b"".join, raw)))

    def doubled(self, names: Sequence[str]) -> str | None:
        found = [name.decode("latin-1") for name, _ in self.scope["headers"]]
        return next((name for name in names if found.count(name) > 1), None)

    def routing(self) -> routing.RoutingHeaders:
        return routing.read(self.scope["headers"])


class AsgiExchange(AsgiHead, eq=False):
    """An exchange over ``receive`` and ``send``."""

    method: str
    extra: Headers = ()

    async def read(self, limit: int) -> bytes:
        message = await self.receive()
        body: bytes = message.get("body", b"")
        if not message.get("more_body") and message["type"] == "http.request" and len(body) <= limit:
            return body
        declared = self.headers.get("content-length", "")
        if declared.isdigit() and int(declared[:20]) > limit:
            raise too_large(limit)
        return await self._read_on(message, limit)

    async def _read_on(self, message: Message, limit: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            if message["type"] == "http.disconnect":
                raise TransportError("the client went away", cause="eof")
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > limit:
                raise too_large(limit)
            parts.append(part)
            if not message.get("more_body"):
                return b"".join(parts)
            message = await self.receive()

    async def answer(
        self, status: int, body: bytes = b"", headers: Headers = (), kind: tuple[str, str] = JSON_TYPE
    ) -> None:
        lines = [(b"content-length", b"%d" % len(body))]
        if body:
            lines.append(_JSON if kind is JSON_TYPE else encoded(kind))
        if headers or self.extra:
            lines += map(encoded, (*headers, *self.extra))
        await self.send({"type": "http.response.start", "status": status, "headers": lines})
        await self.send({"type": "http.response.body", "body": body})

    def stream(self, headers: Headers = ()) -> AsgiSink:
        return AsgiSink(self.send, [*map(encoded, (*EVENT_HEADERS, *headers, *self.extra))])

    async def disconnected(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass


class AsgiSink(Struct, eq=False):
    """A response in pieces."""

    send: Send
    head: Raw
    begun: bool = False

    async def write(self, data: bytes) -> None:
        try:
            if not self.begun:
                self.begun = True
                await self.send({"type": "http.response.start", "status": 200, "headers": self.head})
            await self.send({"type": "http.response.body", "body": data, "more_body": True})
        except GONE:
            raise gone() from None

    async def close(self) -> None:
        try:
            if not self.begun:
                self.begun = True
                await self.send({"type": "http.response.start", "status": 200, "headers": self.head})
            await self.send({"type": "http.response.body", "body": b""})
        except GONE:
            pass


class AsgiSocket(AsgiHead, eq=False):
    """A WebSocket of the host's."""

    offered: Sequence[str]
    method: str = "GET"

    async def refuse(self, status: int, reason: str) -> None:
        await self.receive()  # websocket.connect
        if "websocket.http.response" not in (self.scope.get("extensions") or {}):
            code = INTERNAL_ERROR if status == 500 else POLICY_VIOLATION
            await self.send({"type": "websocket.close", "code": code, "reason": reason})
            return
        body = reason.encode()
        head = [encoded(TEXT_TYPE), (b"content-length", b"%d" % len(body))]
        await self.send({"type": "websocket.http.response.start", "status": status, "headers": head})
        await self.send({"type": "websocket.http.response.body", "body": body})

    async def accept(self, subprotocol: str | None) -> None:
        await self.receive()  # websocket.connect
        await self.send({"type": "websocket.accept", "subprotocol": subprotocol})

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


def gone() -> TransportError:
    return TransportError("the client has gone", cause="eof")


def _below(scope: MutableMapping[str, Any]) -> str:
    """The path below the prefix this app is mounted at. Hosts differ in whether ``path`` includes it."""
    path: str = scope["path"]
    root: str = scope["root_path"].rstrip("/")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/"):
        return path[len(root) :] or "/"
    return path
