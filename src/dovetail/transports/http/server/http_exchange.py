"""One HTTP request and its response, on any server.

The package speaks to the protocols below. `asgi` implements them for ASGI servers, `builtin_exchange` and
`builtin_websocket` for the built-in server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct

from ....core.admit import Admission
from ....core.channel import Service
from ....core.limits import UNCOUNTED_BYTES, SharedLimit, busy
from ....core.principal import Principal
from ....core.route_handlers import CustomRoute
from ....drivers.middleware_chain import AddressCheck, Middleware, Wrapper
from ....errors import (
    LATER,
    DovetailError,
    ProtocolError,
    Refusal,
    RemoteProtocolError,
    TransportError,
    http_status,
)
from ....middleware.health import Health
from ....stores.base import Store
from ....wire.codec import Codec
from ....wire.frames import Frame, RequestId, too_large
from ....wire.headers import RoutingHeaders
from ....wire.headers import read as read_routing
from ....wire.seal import Seal

if TYPE_CHECKING:
    from ....telemetry.metrics import Metrics
    from .event_log import EventHistory

HTTP_TICK: Final = 1.0
"""Seconds between two checks of the timeouts of one app."""
HTTP_FLUSH: Final = 1.0
"""Seconds for clients to read the last bytes of their responses, and for connections to close."""


Headers = Sequence[tuple[str, str]]
Scope = Mapping[str, Any]

JSON_TYPE: Final = ("content-type", "application/json")
TEXT_TYPE: Final = ("content-type", "text/plain; charset=utf-8")
EVENT_HEADERS: Final = (
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
)
SHORT_LENGTH: Final = 4
LONGEST_LENGTH: Final = 19
"""Digits of a Content-Length that needs no second look, and of one that is worth reading."""
GONE: Final = (OSError, RuntimeError)
"""How hosts say that the client has gone, or that everything has been said."""
CLOSE: Final = (("connection", "close"),)
"""For answers after which the rest of what the client sends is not worth reading."""


class FunctionCaller(Protocol):
    """Calls an author's function where it belongs: on the loop, or in a worker thread."""

    async def call(self, function: Callable[..., Any], /, *args: Any) -> Any: ...


class HttpService(Service, Protocol):
    """What HTTP asks of a server: a service with keys for what it hands out."""

    seal: Seal
    clock: Callable[[], float]
    health: Health
    middleware: tuple[Middleware | Wrapper, ...]

    def find_routes(self, path: str) -> list[tuple[CustomRoute, dict[str, str]]]: ...

    """The author's own, beside the endpoint."""
    runner: FunctionCaller
    store: Store | None
    """Where sessions live that every process may serve."""
    event_history: EventHistory | None
    """Where an author keeps the events of legacy sessions, in place of a store."""

    def use_store(self, store: Store) -> None:
        """Keep state there from now on."""
        ...

    @property
    def metrics(self) -> Metrics:
        """What it counts, from now on."""
        ...

    @property
    def name(self) -> str: ...

    def component_scopes(self) -> frozenset[str]:
        """The scopes that anything here asks for."""
        ...


class Head(Protocol):
    """What came before the body."""

    method: str
    path: str
    """Below the prefix we are mounted at."""
    headers: Mapping[str, str]
    """Names are in lower case, values without white space around. Of a header that came twice one is here: `plain`."""
    plain: bool
    """Every header came once and could be read; where the host has no limit of its own, they are not too long."""
    local: str
    """The address the connection came in on; a path, or nothing, for a Unix socket."""

    @property
    def prefix(self) -> str:
        """Where we are mounted; empty at the root."""
        ...

    @property
    def peer(self) -> tuple[str, int] | None:
        """The address and port of the client; None over a Unix socket."""
        ...

    @property
    def query(self) -> str: ...

    @property
    def scope(self) -> Scope:
        """The head as users see it: an ASGI scope, or a mapping that looks like one."""
        ...

    def size(self) -> int:
        """Bytes of all headers together."""
        ...

    def doubled(self, names: Sequence[str]) -> str | None:
        """The first of ``names`` that came twice, or with bytes that cannot be read."""
        ...

    def routing(self) -> RoutingHeaders:
        """The headers that repeat what the body says, duplicates and parameters included."""
        ...


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
        raw: list[tuple[bytes, bytes]] = self.scope["headers"]
        return len(b"".join(map(b"".join, raw)))

    def doubled(self, names: Sequence[str]) -> str | None:
        found = [name.decode("latin-1") for name, _ in self.scope["headers"]]
        return next((name for name in names if found.count(name) > 1), None)

    def routing(self) -> RoutingHeaders:
        return read_routing(self.scope["headers"])


class Sink(Protocol):
    """The body of a response that is written piece by piece."""

    async def write(self, data: bytes) -> None:
        """Send ``data``; returns when the host takes more.

        Raises:
            TransportError: the client has gone.
        """
        ...

    def take(self, data: bytes) -> bool:
        """Send ``data`` without waiting, as `write` would; False: this needs `write`."""
        ...

    async def close(self) -> None:
        """End the response properly. Raises nothing for a client that has gone."""
        ...


class Exchange(Head, Protocol):
    """One request that is to be answered once, with `answer` or with `stream`."""

    extra: Headers
    """Lines that every answer gets, whoever gives it."""
    held: int
    """Bytes of a request body above 64 KiB that are counted in `Limits.max_buffered_bytes`."""

    @property
    def lost(self) -> bool:
        """The client has disconnected, or at least closed its sending side, as far as is known without waiting."""
        ...

    def read(self, limit: int, buffered: SharedLimit) -> Awaitable[bytes]:
        """The whole body. Call and await it in one expression: it may raise before there is anything to wait for.

        Raises:
            RemoteProtocolError: (``message_too_large``) it exceeds ``limit`` bytes.
            Refusal: it is large, and others hold too much of ``account``.
            TransportError, OSError, RuntimeError: (the last two: `GONE`) the client went away before it had come.
        """
        ...

    async def answer(
        self, status: int, body: bytes = b"", headers: Headers = (), kind: tuple[str, str] = JSON_TYPE
    ) -> None:
        """Send one whole response; a body is JSON unless ``kind`` says otherwise."""
        ...

    def reply(self, body: bytes) -> Awaitable[None] | None:
        """Send ``body`` as `answer` would with status 200; what there is to wait for, if anything."""
        ...

    def stream(self, headers: Headers = ()) -> Sink:
        """Begin an event stream with status 200; its head leaves with the first bytes."""
        ...

    async def disconnected(self) -> None:
        """Return when the client has hung up. Cancel it once the response is complete."""
        ...


class Socket(Head, Protocol):
    """One WebSocket, from its handshake on."""

    @property
    def handshake_problem(self) -> str | None:
        """Why the handshake is not valid, or None."""
        ...

    @property
    def offered(self) -> Sequence[str]:
        """The subprotocols the client would speak."""
        ...

    async def refuse(self, status: int, reason: str, headers: Headers = ()) -> None:
        """Turn the handshake down, as far as the host can say why."""
        ...

    async def accept(self, subprotocol: str | None) -> None:
        """Complete the handshake.

        Raises:
            TransportError: the client has gone.
        """
        ...

    async def receive_message(self) -> str | bytes | None:
        """The next message: text, bytes, or None when the socket is closed."""
        ...

    async def send_text(self, text: str) -> None:
        """Send one message; returns when the host takes more.

        Raises:
            TransportError: the client has gone.
        """
        ...

    async def close(self, code: int) -> None: ...


class Posted(Struct, eq=False):
    """One POST to the endpoint: the exchange, and what it said."""

    exchange: Exchange
    body: bytes
    frame: Frame | RemoteProtocolError
    """The message, or why ``body`` is not a single one."""
    routing: RoutingHeaders
    principal: Principal | None
    task: asyncio.Task[Any]
    """The one that works on it."""


async def refuse(
    exchange: Exchange,
    admission: Admission,
    error: DovetailError,
    *,
    id: RequestId | None = None,
    status: int | None = None,
    headers: Headers = (),
    codec: Codec | None = None,
) -> None:
    """Answer with ``error`` in the words of ``codec``, of the version in the head, or of the newest one served."""
    if codec is None:
        codec = admission.modern.get(exchange.headers.get("mcp-protocol-version", ""))
    if id is None and isinstance(error, RemoteProtocolError):
        id = error.id
    rejection = admission.refuse(error, id, status=status, codec=codec)
    lines = (*headers, *retry_after(error, rejection.status))
    await exchange.answer(rejection.status, rejection.body, lines)


async def kept_out(exchange: Exchange, admission: Admission, door: AddressCheck) -> bool:
    """Whether a guard lets nobody in from there; then the client has been told, and its message is not read."""
    peer = exchange.peer
    error = None if peer is None else await door(peer[0])
    if error is not None:
        await refuse(exchange, admission, error, status=http_status(error.kind), headers=CLOSE)
    return error is not None


def hold(exchange: Exchange, buffered: SharedLimit, size: int) -> None:
    """Make room for a body of ``size`` bytes, before it is read.

    Raises:
        Refusal: there is none left.
    """
    if size > UNCOUNTED_BYTES and size > exchange.held:
        if not buffered.acquire(size - exchange.held):
            raise busy("request bodies")
        exchange.held = size


@contextmanager
def unsent(exchange: Exchange, buffered: SharedLimit, size: int) -> Generator[Refusal | None]:
    """Count a response of ``size`` bytes in `Limits.max_buffered_bytes` while this block sends it.

    Yields the refusal to send instead if the limit is reached. The body of the request no longer counts.
    """
    buffered.release(exchange.held)
    exchange.held = 0
    with buffered.sending(size) as refusal:
        yield refusal


def length_of(declared: str, limit: int) -> int:
    """The bytes that a ``Content-Length`` declares: digits, and as many zeros before them as somebody likes.

    Raises:
        RemoteProtocolError: it is more than ``limit``, or no number.
    """
    digits = declared.lstrip("0") or "0"
    if not (digits.isascii() and digits.isdigit()):
        raise RemoteProtocolError("invalid_request", "Content-Length is no number")
    if len(digits) > LONGEST_LENGTH or int(digits) > limit:
        raise too_large(limit)
    return int(digits)


def retry_after(error: DovetailError, status: int) -> Headers:
    """When to come back, for refusals that tell a client to; to legacy clients they are told with status 200."""
    if status not in LATER and http_status(error.kind) not in LATER:
        return ()
    seconds = error.retry_after if isinstance(error, Refusal | ProtocolError) else None
    return (("retry-after", str(max(1, ceil(seconds or 1)))),)


def gone() -> TransportError:
    return TransportError("the client has gone", cause="eof")
