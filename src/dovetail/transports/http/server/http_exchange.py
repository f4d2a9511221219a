"""The interfaces of one HTTP request and its response, independent of the HTTP server.

The package uses the protocols below. `asgi` implements them for ASGI servers, `builtin_exchange` and
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
    from ....core.route_handlers import CustomRoute
    from ....telemetry.metrics import Metrics
    from .sse_event_log import EventHistory

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
"""Maximum digits of a Content-Length that is parsed."""
GONE: Final = (OSError, RuntimeError)
"""Exceptions with which hosts report a disconnect or a completed response."""
CLOSE: Final = (("connection", "close"),)
"""Closes the connection after the response, because the rest of the request is not read."""


class FunctionCaller(Protocol):
    """Calls a user function on the event loop or in a worker thread, as appropriate."""

    async def call(self, function: Callable[..., Any], /, *args: Any) -> Any: ...


class HttpService(Service, Protocol):
    """What HTTP needs of a server."""

    seal: Seal
    clock: Callable[[], float]
    health: Health

    @property
    def middleware(self) -> tuple[Middleware | Wrapper, ...]: ...

    def find_routes(self, path: str) -> list[tuple[CustomRoute, dict[str, str]]]:
        """The custom routes that match ``path``."""
        ...

    @property
    def runner(self) -> FunctionCaller: ...

    @property
    def store(self) -> Store | None:
        """The sessions that any process can serve."""
        ...

    @property
    def event_history(self) -> EventHistory | None:
        """The event history of legacy sessions, if the server does not use its store for it."""
        ...

    def use_store(self, store: Store) -> None:
        """Use ``store`` for state from now on."""
        ...

    @property
    def metrics(self) -> Metrics:
        """The metrics of the server, created on first use."""
        ...

    @property
    def name(self) -> str: ...

    def component_scopes(self) -> frozenset[str]:
        """Return the scopes that any component requires."""
        ...


class RequestHeaders(Protocol):
    """The header block of a request."""

    method: str
    path: str
    """Path below the mount prefix."""
    headers: Mapping[str, str]
    """Lower-case names, values without surrounding white space.

    Repeated headers have one value: see `plain`.
    """
    plain: bool
    """No header is repeated or has invalid bytes, and the size is within the limit if the host has none."""
    local: str
    """The local address of the connection; a path, or empty, for a Unix socket."""

    @property
    def prefix(self) -> str:
        """The mount prefix; empty at the root."""
        ...

    @property
    def peer(self) -> tuple[str, int] | None:
        """Address and port of the client; None over a Unix socket."""
        ...

    @property
    def query(self) -> str: ...

    @property
    def scope(self) -> Scope:
        """The ASGI scope, or an equivalent mapping."""
        ...

    def size(self) -> int:
        """Total size of all headers in bytes."""
        ...

    def doubled(self, names: Sequence[str]) -> str | None:
        """Return the first of ``names`` that is repeated or has invalid bytes."""
        ...

    def routing(self) -> RoutingHeaders:
        """Return the routing headers, including repeated ones and parameters."""
        ...


class ScopeHeaders(Struct, eq=False):
    """The header block of a request or a handshake, from its scope."""

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


class ResponseSink(Protocol):
    """A response body that is written piece by piece."""

    async def write(self, data: bytes) -> None:
        """Send ``data``. Returns when the host accepts more (backpressure).

        Raises:
            TransportError: the client has disconnected.
        """
        ...

    def take(self, data: bytes) -> bool:
        """Send ``data`` without waiting, as `write` would. False: call `write` instead."""
        ...

    async def close(self) -> None:
        """End the response. Raises nothing if the client has disconnected."""
        ...


class Exchange(RequestHeaders, Protocol):
    """One request, which gets one response through `answer` or `stream`."""

    extra: Headers
    """Headers of every response."""
    held: int
    """Bytes of a request body above 64 KiB that are counted in `Limits.max_buffered_bytes`."""

    @property
    def lost(self) -> bool:
        """The client has disconnected, or at least closed its sending side, as far as is known without waiting."""
        ...

    def read(self, limit: int, buffered: SharedLimit) -> Awaitable[bytes]:
        """Read the whole body. Call it and await it in one expression: it may raise immediately.

        Raises:
            RemoteProtocolError: (``message_too_large``) it exceeds ``limit`` bytes.
            Refusal: it is large, and the limit on buffered bytes is reached.
            TransportError, OSError, RuntimeError: (the last two: `GONE`) the client disconnected before its
            end.
        """
        ...

    async def answer(
        self, status: int, body: bytes = b"", headers: Headers = (), kind: tuple[str, str] = JSON_TYPE
    ) -> None:
        """Send a complete response. A body is JSON unless ``kind`` is given."""
        ...

    def reply(self, body: bytes) -> Awaitable[None] | None:
        """Send ``body`` like `answer` with status 200. Returns an awaitable if the caller must wait."""
        ...

    def stream(self, headers: Headers = ()) -> ResponseSink:
        """Start an event stream with status 200; its headers are sent with the first bytes."""
        ...

    async def disconnected(self) -> None:
        """Return when the client has disconnected. Cancel it once the response is complete."""
        ...


class Socket(RequestHeaders, Protocol):
    """One WebSocket, including its handshake."""

    @property
    def handshake_problem(self) -> str | None:
        """Why the handshake is invalid, or None."""
        ...

    @property
    def offered(self) -> Sequence[str]:
        """The subprotocols that the client offers."""
        ...

    async def refuse(self, status: int, reason: str, headers: Headers = ()) -> None:
        """Refuse the handshake, with the reason if the host supports it."""
        ...

    async def accept(self, subprotocol: str | None) -> None:
        """Complete the handshake.

        Raises:
            TransportError: the client has disconnected.
        """
        ...

    async def receive_message(self) -> str | bytes | None:
        """Return the next message: text, bytes, or None when the socket is closed."""
        ...

    async def send_text(self, text: str) -> None:
        """Send one message. Returns when the host accepts more (backpressure).

        Raises:
            TransportError: the client has disconnected.
        """
        ...

    async def close(self, code: int) -> None: ...


class PostedMessage(Struct, eq=False):
    """One POST to the endpoint with its decoded message."""

    exchange: Exchange
    body: bytes
    frame: Frame | RemoteProtocolError
    """The message, or why ``body`` is not a single message."""
    routing: RoutingHeaders
    principal: Principal | None
    task: asyncio.Task[Any]
    """The task that serves it."""


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
    """Respond with ``error``, encoded by ``codec``, by the version header, or by the newest revision served."""
    if codec is None:
        codec = admission.modern.get(exchange.headers.get("mcp-protocol-version", ""))
    if id is None and isinstance(error, RemoteProtocolError):
        id = error.id
    rejection = admission.refuse(error, id, status=status, codec=codec)
    lines = (*headers, *retry_after(error, rejection.status))
    await exchange.answer(rejection.status, rejection.body, lines)


async def refused_by_address(exchange: Exchange, admission: Admission, door: AddressCheck) -> bool:
    """Check the client address before the body is read. Returns True if the request was refused."""
    peer = exchange.peer
    error = None if peer is None else await door(peer[0])
    if error is not None:
        await refuse(exchange, admission, error, status=http_status(error.kind), headers=CLOSE)
    return error is not None


def reserve(exchange: Exchange, buffered: SharedLimit, size: int) -> None:
    """Reserve buffer space for a body of ``size`` bytes, before it is read.

    Raises:
        Refusal: the limit on buffered bytes is reached.
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
    """Parse a ``Content-Length``: digits, with any number of leading zeros.

    Raises:
        RemoteProtocolError: it exceeds ``limit``, or is not a number.
    """
    digits = declared.lstrip("0") or "0"
    if not (digits.isascii() and digits.isdigit()):
        raise RemoteProtocolError("invalid_request", "Content-Length must be a number")
    if len(digits) > LONGEST_LENGTH or int(digits) > limit:
        raise too_large(limit)
    return int(digits)


def retry_after(error: DovetailError, status: int) -> Headers:
    """Return Retry-After headers for refusals that allow a retry. Legacy clients get them with status 200."""
    if status not in LATER and http_status(error.kind) not in LATER:
        return ()
    seconds = error.retry_after if isinstance(error, Refusal | ProtocolError) else None
    return (("retry-after", str(max(1, ceil(seconds or 1)))),)


def client_disconnected() -> TransportError:
    return TransportError("the client has disconnected", cause="eof")
