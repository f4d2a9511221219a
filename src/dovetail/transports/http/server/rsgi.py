"""A server as an RSGI application: the interface of granian, whose answers leave in one call.

What RSGI does not carry is missing here too: a stream never waits for a client that does not read, a WebSocket is
accepted without a subprotocol and closed without a code, and a header value beyond visible ASCII cannot be read (it is
refused where it would matter). Host and Origin are judged by the address we listen on; see `RsgiFace`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import types
from collections.abc import Awaitable, Generator, ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from ....core.budget import Account
from ....drivers.pacing import stepwise, turn
from ....errors import RemoteProtocolError
from ....settings import ADDRESSES_KEPT, LARGE_ANSWER, READ_IN_TURN, UNSENT_STREAM, HttpOptions
from ....wire import headers as routing
from ....wire.frames import too_large
from ....wire.long_results import Body, Pieces, pieces_of
from ...loopback import is_loopback
from .app import HttpApp
from .connections import PeerConnections
from .exchange import (
    EVENT_HEADERS,
    GONE,
    JSON_TYPE,
    SHORT_LENGTH,
    Headers,
    HttpService,
    Living,
    gone,
    hold,
    length_of,
)

_JSON: Final = [JSON_TYPE]
_TAKEN: Final = object()
CLOSED, BINARY = 0, 1
"""Kinds of a WebSocket message; a text is the third."""


def face(service: HttpService, **options: Any) -> RsgiFace:
    """``service`` as an RSGI application; ``options`` are members of `HttpOptions`."""
    return RsgiFace(HttpApp(service, HttpOptions(**options)))


class RsgiFace:
    """What `Server.rsgi` returns. ``local`` is the address every connection comes in on, where that is known."""

    def __init__(self, app: HttpApp, life: Living | None = None, local: str | None = None) -> None:
        self.app = app
        self._only = local
        self._life: Living = app.life if life is None else life
        self._known: dict[str, str] = {}
        """The address of each of our listeners; there are only a few."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections = app.life.connections

    def __rsgi__(self, scope: Any, protocol: Any) -> Awaitable[None]:
        """Answers a request, or serves a WebSocket. The host waits for what comes back: no coroutine stands between."""
        native = scope.headers
        items = native.items()
        headers = dict(items)
        plain = len(headers) == len(items) == len(native)
        if scope.authority:
            # RFC 9113, 8.3.1: ":authority" is what "Host" was; RFC 9112, 3.2.2: so it is in a target that is a URL.
            headers["host"] = scope.authority
        local = self._only or self._known.get(scope.server) or self._local(scope)
        if scope.proto == "http":
            seen = RsgiScope(scope, "http")
            exchange = RsgiExchange(scope, protocol, scope.path, headers, plain, local, seen, scope.method)
            exchange.connections = self._connections
            return self.app.handle(exchange)
        seen = RsgiScope(scope, "websocket")
        return self._connect(
            RsgiSocket(scope, protocol, scope.path, headers, plain, local, seen, scope.method)
        )

    async def _connect(self, socket: RsgiSocket) -> None:
        try:
            await self.app.connect(socket)
        finally:
            socket.transport = socket.protocol = None  # the connection stays as long as somebody holds it

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._run(loop, self._life.start())

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._run(loop, self._life.stop())

    def _run(self, loop: asyncio.AbstractEventLoop, work: Any) -> None:
        """Hosts call from within the loop or beside it."""
        if not loop.is_running():
            loop.run_until_complete(work)
            return
        task = loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self, seconds: float) -> None:
        """End everything in order; calls under way get ``seconds``."""
        await self.app.life.drain(seconds)

    def _local(self, scope: Any) -> str:
        """The address a connection came in on; RSGI tells only the one we listen on.

        If that is "every address", a client on loopback has come in on loopback.
        """
        server: str = scope.server
        host = _address(server)[0]
        try:
            if ipaddress.ip_address(host).is_unspecified:
                client = _address(scope.client)[0]
                return client if is_loopback(client) else host
        except ValueError:
            pass  # a Unix socket
        self._known[server] = host
        return host


class RsgiScope(Struct, eq=False):
    """The head of a request in the words of ASGI, put together when somebody looks at it."""

    native: Any
    transport: str
    known: dict[str, Any] | None = None

    def _all(self) -> dict[str, Any]:
        if self.known is None:
            native = self.native
            self.known = {
                "type": self.transport,
                "transport": self.transport,
                "http_version": native.http_version,
                "scheme": native.scheme,
                "method": native.method,
                "path": native.path,
                "root_path": "",
                "query_string": native.query_string.encode("latin-1"),
                "headers": raw(native.headers),
                "server": _address(native.server),
                "client": _address(native.client) if native.client else None,
            }
        return self.known

    def __getitem__(self, name: str) -> Any:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def get(self, name: str, default: Any = None) -> Any:
        if name == "client" and self.known is None:  # what guards ask of every call
            client = self.native.client  # made anew for whoever asks
            return _address(client) if client else default
        return self._all().get(name, default)

    def keys(self) -> KeysView[str]:
        return self._all().keys()

    def values(self) -> ValuesView[Any]:
        return self._all().values()

    def items(self) -> ItemsView[str, Any]:
        return self._all().items()


Mapping.register(RsgiScope)  # type: ignore[attr-defined]  # pyright: ignore


class RsgiHead(Struct, eq=False):
    """A request or a handshake, and how to answer it."""

    native: Any
    protocol: Any
    path: str
    headers: Mapping[str, str]
    plain: bool
    local: str
    scope: Any
    method: str

    @property
    def prefix(self) -> str:
        return ""

    @property
    def peer(self) -> tuple[str, int] | None:
        host, port = _address(self.native.client) if self.native.client else ("", None)
        return None if port is None else (host, port)

    @property
    def query(self) -> str:
        return self.native.query_string

    def size(self) -> int:
        return sum(len(name) + len(value) for name, value in self.native.headers.items())

    def doubled(self, names: Sequence[str]) -> str | None:
        found = self.native.headers
        return next((name for name in names if name in found and len(found.get_all(name)) != 1), None)

    def routing(self) -> routing.RoutingHeaders:
        return routing.read(raw(self.native.headers))


class RsgiExchange(RsgiHead, eq=False):
    """An exchange over RSGI's protocol object."""

    extra: Headers = ()
    held: int = 0
    connections: PeerConnections | None = None

    def read(self, limit: int, account: Account) -> Awaitable[bytes]:
        declared = self.headers.get("content-length")
        # Beside a transfer encoding a length means nothing, and it is all that bounds a body read in one go.
        if declared is None or "transfer-encoding" in self.headers:
            return self._read_pieces(limit, account)
        if len(declared) > SHORT_LENGTH:
            hold(self, account, size := length_of(declared, limit))
            if self.held:
                return self._read_in_line(size)
        elif int(declared) > limit:
            raise too_large(limit)
        return self.protocol()

    async def _read_in_line(self, declared: int) -> bytes:
        """A large body, a little at a time: granian would read all that comes, and nobody else had a turn meanwhile."""
        parts, size, due = list[bytes](), 0, READ_IN_TURN
        async for part in self.protocol:
            parts.append(part)
            size += len(part)
            if size > due:
                due = size + READ_IN_TURN
                await turn()
        if size != declared:
            raise gone()  # it broke off
        return b"".join(parts)

    async def _read_pieces(self, limit: int, account: Account) -> bytes:
        parts: list[bytes] = []
        size = 0
        ended = False
        async for part in self.protocol:
            # A body that breaks off yields an empty piece, as its proper end does. But only the end comes last.
            if ended:
                raise RemoteProtocolError("invalid_request", "the body is broken, or has trailers")
            ended = not part
            size += len(part)
            if size > limit:
                raise too_large(limit)
            hold(self, account, size)
            parts.append(part)
        return b"".join(parts)

    async def answer(
        self, status: int, body: Body = b"", headers: Headers = (), kind: tuple[str, str] = JSON_TYPE
    ) -> None:
        if isinstance(body, Pieces) or len(body) > LARGE_ANSWER:
            length = ("content-length", str(len(body)))
            stream = self.protocol.response_stream(status, [kind, length, *headers, *self.extra])
            await stepwise(_sent(stream, body))
        elif body:
            self.protocol.response_bytes(status, [kind, *headers, *self.extra], body)
        else:
            self.protocol.response_empty(status, [*headers, *self.extra])

    def reply(self, body: Body) -> Awaitable[None] | None:
        if self.extra or isinstance(body, Pieces) or len(body) > LARGE_ANSWER:
            return self.answer(200, body)
        self.protocol.response_bytes(200, _JSON, body)
        return None

    def stream(self, headers: Headers = ()) -> RsgiSink:
        return RsgiSink(self, [*EVENT_HEADERS, *headers, *self.extra])

    async def disconnected(self) -> None:
        await self.protocol.client_disconnect()


class RsgiSink(Struct, eq=False):
    """A response in pieces; it ends when nobody holds its transport any more."""

    exchange: RsgiExchange
    head: Headers
    transport: Any = None
    unsent: int = 0
    """Bytes since we last knew that all had been taken: RSGI itself never waits."""
    rest: Any = None
    """What `take` would have had to wait for."""

    def take(self, data: bytes) -> bool:
        if self.rest is not None or self.unsent + len(data) > UNSENT_STREAM:
            return False
        try:
            if self.transport is None:
                self.transport = self.exchange.protocol.response_stream(200, self.head)
            # Granian takes it with the call, and what it returns has nothing to wait for.
            steps = self.transport.send_bytes(data).__await__()
            first = next(steps, _TAKEN)
        except GONE:
            raise gone() from None
        self.unsent += len(data)
        if first is not _TAKEN:
            self.rest = _resumed(first, steps)
        return True

    async def write(self, data: bytes) -> None:
        rest, self.rest = self.rest, None
        try:
            if rest is not None:
                await rest
            if self.transport is None:
                self.transport = self.exchange.protocol.response_stream(200, self.head)
            await self.transport.send_bytes(data)
        except GONE:
            raise gone() from None
        self.unsent += len(data)
        connections = self.exchange.connections
        if self.unsent > UNSENT_STREAM and connections is not None:
            self.unsent = 0
            await connections.taken(self.exchange.peer)

    async def close(self) -> None:
        if self.rest is not None:
            with suppress(*GONE):
                await self.rest
        if self.transport is None:
            self.exchange.protocol.response_empty(200, self.head)  # ignored where an answer has begun
        self.transport = self.rest = None


def _sent(stream: Any, body: Body) -> Generator[None, None, None]:
    """Give a large answer to granian piece by piece: it copies what it takes, and everybody waits meanwhile."""
    with suppress(*GONE):
        for piece in pieces_of(body):
            next(stream.send_bytes(piece).__await__(), None)
            yield


@types.coroutine
def _resumed(first: Any, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """An awaitable whose first step has been taken."""
    yield first
    yield from steps


class RsgiSocket(RsgiHead, eq=False):
    """A WebSocket over RSGI's protocol object."""

    transport: Any = None

    @property
    def offered(self) -> Sequence[str]:
        return [name.strip() for name in self.headers.get("sec-websocket-protocol", "").split(",")]

    async def refuse(self, status: int, reason: str, headers: Headers = ()) -> None:
        self.protocol.close(status)

    async def accept(self, subprotocol: str | None) -> None:
        try:
            self.transport = await self.protocol.accept()
        except GONE:
            raise gone() from None

    async def receive_message(self) -> str | bytes | None:
        try:
            message = await self.transport.receive()
        except GONE:
            return None
        return None if message.kind == CLOSED else message.data

    async def send_text(self, text: str) -> None:
        try:
            await self.transport.send_str(text)
        except GONE:
            raise gone() from None

    async def close(self, code: int) -> None:
        self.protocol.close()
        while await self.receive_message() is not None:
            pass  # what the client still says, up to its goodbye


def raw(headers: Any) -> list[tuple[bytes, bytes]]:
    """RSGI's headers as ASGI has them; of those that cannot be read, the name."""
    found = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    readable = {name for name, _ in found}
    return found + [(name.encode(), b"") for name in headers if name.encode() not in readable]


@lru_cache(ADDRESSES_KEPT)
def _address(value: str) -> tuple[str, int | None]:
    """``host:port`` apart; a Unix socket is a path."""
    host, _, port = value.rpartition(":")
    if not port.isdecimal():
        return value, None
    return host.removeprefix("[").removesuffix("]"), int(port)
