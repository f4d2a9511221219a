"""Options of servers and clients: one frozen struct for each subject, with safe defaults."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Self

from msgspec import Struct
from msgspec.structs import replace

from .parameter_kinds import FUNCTION, NAMES, Kind, or_none

_NUMERIC: Final = (int, int | float, int | None, int | float | None)
_SECRET: Final = ("secret", "key", "token")
"""Parts of the names of parameters whose values are never shown."""


def check_kinds(kinds: Mapping[str, Kind], given: Mapping[str, Any]) -> None:
    """Check the types of parameters.

    Raises:
        TypeError: a value has the wrong type. The message has the name of the parameter and the accepted type.
    """
    for name, (kind, what) in kinds.items():
        if name not in given:
            continue
        value = given[name]
        if not isinstance(value, kind) or (type(value) is bool and kind in _NUMERIC):
            hidden = not isinstance(value, int | float | None) and any(part in name for part in _SECRET)
            shown = f"a value of the type {type(value).__name__}" if hidden else repr(value)
            raise TypeError(f"{name} is {what}, not {shown}")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Check that a parameter has one of several values. Raises: ValueError."""
    several = tuple(choices)
    if value not in several:
        raise ValueError(f"{name} is one of {', '.join(several)}, not {value!r}")


def checked_seconds(name: str, value: Any) -> float:
    """A number of seconds above 0.

    Raises:
        TypeError: it is not a number.
        ValueError: it is not above 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is a number of seconds, not {value!r}")
    if not value > 0:
        raise ValueError(f"{name} must be more than 0 seconds, not {value}")
    return value


_OPTION_KINDS: Final[Mapping[Any, Kind]] = {
    int: (int, "a whole number"),
    float: (int | float, "a number"),
    int | None: (int | None, "a whole number, or None"),
    float | None: (int | float | None, "a number, or None"),
    bool: (bool, "True or False"),
    str: (str, "a string"),
    str | None: (str | None, "a string, or None"),
    bool | str: (bool | str, "True, False or a string"),
    tuple[str, ...]: NAMES,
    Callable[[Mapping[str, Any]], Any] | None: or_none(FUNCTION),
}


class Options(Struct, frozen=True):
    """Base of the option structs: a value of the wrong type is refused with the name of the option."""

    def __post_init__(self) -> None:
        for name, annotation in type(self).__annotations__.items():
            kind, what = _OPTION_KINDS.get(annotation, (object, ""))
            value: Any = getattr(self, name)
            if not isinstance(value, kind) or (type(value) is bool and kind in _NUMERIC):
                raise TypeError(f"{name} of {type(self).__name__} is {what}, not {value!r}")


class Limits(Options, frozen=True, kw_only=True):
    """Upper bounds for one server or client. Sizes are bytes, times are seconds."""

    max_message_bytes: int = 16 << 20
    """The largest message accepted on any transport, in bytes."""
    max_response_bytes: int | None = None
    """The largest message sent, in bytes; a larger response becomes an error. ``None``: no limit."""
    max_websocket_message_bytes: int | None = None
    """Replaces both limits above on a WebSocket, in bytes."""
    max_event_bytes: int | None = None
    """Replaces both limits above for one event of an event stream, in bytes."""
    max_batch_size: int = 1000
    """Messages in one batch."""
    max_requests_per_connection: int = 1000
    """Requests in flight on one connection or legacy session. A cancelled request counts until its handler ends."""
    max_concurrent_requests: int = 20_000
    """Requests in flight on all connections of one server together."""
    max_outgoing_requests: int = 1000
    """Requests sent to one peer that wait for its response."""
    client_response_timeout: float = 600.0
    """Seconds a client has to respond to a server-to-client request."""
    max_tombstones: int = 1024
    """Finished or cancelled ids that are remembered, so that a late response is recognised."""
    page_size: int = 100
    """Entries of one list page."""
    max_subscriptions: int = 1000
    """Resource subscriptions of one session or listen stream."""
    max_uri_length: int = 8192
    """Characters of a URI that a client subscribes to."""
    max_sessions: int = 10_000
    """Legacy HTTP sessions in memory. The session that was idle longest is removed to make room."""
    max_sessions_per_principal: int = 1000
    """Legacy HTTP sessions of one principal in memory."""
    max_streams: int = 2000
    """Open event streams of one server."""
    max_replay_events: int = 256
    """Events stored per session for ``Last-Event-ID``."""
    max_replay_bytes_per_session: int = 1 << 20
    """Bytes of events stored per session for ``Last-Event-ID``."""
    max_replay_bytes: int = 64 << 20
    """Bytes of events stored for all sessions together."""
    max_buffered_bytes: int = 64 << 20
    """Bytes of request bodies and unsent responses above 64 KiB, of all clients together. One more is refused."""
    max_subscribed_uri_bytes: int = 32 << 20
    """Bytes of URIs that all clients together may subscribe to."""
    max_disconnected_calls: int = 1000
    """Legacy HTTP calls that continue after their client disconnected; one more is cancelled."""
    max_write_buffer_bytes: int = 1 << 20
    """Unsent bytes of one connection above which the server stops reading from it."""
    max_header_bytes: int = 64 << 10
    """Bytes of the header block of one HTTP request."""
    max_input_rounds: int = 32
    """Rounds of input requests in one call."""
    max_request_state_bytes: int = 256 << 10
    """The largest ``requestState`` accepted or written, in bytes."""
    max_threads: int = 32
    """Worker threads for synchronous handlers."""
    max_memory_bytes: int | None = None
    """Bytes this process may use; calls are refused at 95 %. ``None``: the limit of its control group, if any."""
    max_event_loop_lag: float | None = 1.0
    """Seconds the event loop may be late, in several checks in a row, before calls are refused. ``None``: no limit."""
    max_tasks: int = 1000
    """Tasks in the task store. Finished tasks are removed to make room."""
    max_upload_bytes: int = 10 << 20
    """The largest file for an argument of the type `Upload`, in bytes."""

    def on_websocket(self) -> Self:
        """The limits of a WebSocket."""
        return self._sized(self.max_websocket_message_bytes)

    def on_events(self) -> Self:
        """The limits of an event stream."""
        return self._sized(self.max_event_bytes)

    def _sized(self, size: int | None) -> Self:
        return self if size is None else replace(self, max_message_bytes=size, max_response_bytes=size)


class TaskOptions(Options, frozen=True, kw_only=True):
    """How tools run as tasks, and how long their results are stored."""

    ttl: float = 3600.0
    """Seconds from its creation for which a task and its result are stored, unless the client requests another time."""
    max_ttl: float = 86400.0
    """The longest time to live that a client can request, in seconds."""
    timeout: float | None = None
    """Seconds one task may run; it ends with its time to live at the latest. ``None``: no other limit."""
    poll_interval: float = 1.0
    """Seconds between two polls that the server suggests to clients."""


class Timeouts(Struct, frozen=True):
    """The timeouts of one call, in seconds. ``None`` switches one off."""

    connect: float | None = 30.0
    """Seconds until the connection is ready."""
    idle: float | None = 30.0
    """Seconds since the last byte or progress notification of this call."""
    total: float | None = 300.0
    """Seconds from sending the request to its response."""

    def __post_init__(self) -> None:
        limits: dict[str, Any] = {"connect": self.connect, "idle": self.idle, "total": self.total}
        for name, limit in limits.items():
            if limit is not None and not (isinstance(limit, int | float) and limit >= 0):
                raise ValueError(f"{name} is a number of seconds, 0 or more, or None, not {limit!r}")


class Reconnect(Options, frozen=True, kw_only=True):
    """How a client reconnects after a lost connection."""

    enabled: bool = True
    """Whether the client reconnects at all."""
    initial_delay: float = 1.0
    """Seconds before the first attempt; each further delay doubles."""
    max_delay: float = 30.0
    """The longest delay between two attempts, in seconds."""
    jitter: float = 0.2
    """The random part of each delay, as a fraction of it."""
    max_attempts: int | None = 10
    """Attempts before the client gives up. ``None``: no limit."""
    queue: int = 0
    """Calls that may wait while the connection is down; further calls fail at once."""
    retry_calls: bool = True
    """Retry a call after a loss when its tool is read-only or idempotent."""


class HttpOptions(Options, frozen=True, kw_only=True):
    """Options of a server over HTTP. Times are seconds."""

    path: str = "/mcp"
    """The path of the endpoint and of the WebSocket, below the prefix at which the app is mounted."""
    sse_path: str | None = "/sse"
    """The event stream of HTTP+SSE (2024-11-05). ``None`` switches HTTP+SSE off."""
    messages_path: str = "/messages"
    """The path to which clients of HTTP+SSE post their messages."""
    websocket: bool = True
    """Whether the endpoint accepts WebSockets."""
    json_only: bool = False
    """Never respond with an event stream; clients then need to accept only ``application/json``."""
    stateless: bool = False
    """Create no session for legacy clients: each POST is independent and the server sends no requests. An
    ``Mcp-Session-Id`` that a platform adds is ignored."""
    allowed_hosts: tuple[str, ...] = ()
    """Further ``Host`` names (``name`` or ``name:port``). Loopback names are always allowed on loopback. ``"*"`` allows
    every name: only for platforms that forward requests over loopback."""
    allowed_origins: tuple[str, ...] = ()
    """``Origin`` values of web pages that may call the server, exactly as browsers send them."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks (CIDR) of reverse proxies whose ``X-Forwarded-For`` and ``X-Forwarded-Proto`` are believed;
    applies to the built-in HTTP server."""
    cors: bool = False
    """Respond to CORS preflights of ``allowed_origins``."""
    principal: Callable[[Mapping[str, Any]], Any] | None = None
    """Returns the `Principal` (or its name) of a request from its ASGI scope, for apps that authenticate elsewhere.
    Sessions, states and tasks are bound to it."""
    auth: Any = None
    """Verifies tokens instead of the ``auth`` of the server; see `dovetail.auth`."""
    resource: str | None = None
    """The resource identifier in the metadata; by default the audience of its tokens, else its URL."""
    authorization_servers: tuple[str, ...] = ()
    """URLs of the authorization servers; by default the issuers of the verifier."""
    dpop_nonces: bool = False
    """Require a nonce of this server in DPoP proofs, so that proofs cannot be created in advance."""
    metrics: bool | str = False
    """Serve metrics at ``/metrics``, as ``DOVETAIL_METRICS=1`` does. A folder name is shared by several processes that
    were not started by ``workers``."""
    metrics_token: str | None = None
    """The bearer token a scraper must send; by default ``DOVETAIL_METRICS_TOKEN``. Without it, a protected server takes
    the tokens of its callers, and any other server needs none. ``""``: no token, on a protected server too."""
    access_log: bool = False
    """Log one line for each HTTP request to the logger ``dovetail.access``: method, path, status, duration, client."""
    sse_ping_interval: float = 15.0
    """Seconds between comments on an event stream without events."""
    sse_retry_ms: int = 1000
    """Milliseconds that a client waits before it resumes a stream; sent as the ``retry`` field."""
    max_connections: int = 10_000
    """Connections of the built-in HTTP server, of one process. Further ones get status 503 and are closed."""
    header_timeout: float = 30.0
    """Seconds a client has to send the header block of a request; applies to the built-in HTTP server."""
    keep_alive_timeout: float = 75.0
    """Seconds a connection may be idle between two requests; applies to the built-in HTTP server."""
    body_timeout: float = 30.0
    """Seconds a client has to send its request body."""
    websocket_ping_interval: float | None = 30.0
    """Seconds between two pings on a WebSocket of the built-in HTTP server. A client that answers none is disconnected.
    ``None``: never."""
    write_timeout: float = 30.0
    """Seconds a client may read nothing of what the server sends before the server closes its connection."""
    session_idle_timeout: float = 3600.0
    """Seconds after which an idle session is removed from memory; its id stays valid for ``session_lifetime``."""
    session_lifetime: float = 86400.0
    """Seconds from ``initialize`` for which a session id is valid."""
    session_ping_interval: float | None = 300.0
    """Seconds without a message after which the server pings the client of a session. ``None``: never."""
    shutdown_grace_period: float = 10.0
    """Seconds that requests in flight have to finish once the server shuts down."""
