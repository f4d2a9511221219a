"""What users may turn: one struct for each subject, every member with a safe default."""

from collections.abc import Callable, Mapping
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace


def check_kinds(kinds: Mapping[str, tuple[Any, str]], given: Mapping[str, Any]) -> None:
    """Raises TypeError: a parameter that was given is not of its kind, and what it takes."""
    for name, (kind, what) in kinds.items():
        if name in given and not isinstance(given[name], kind):
            raise TypeError(f"{name} is {what}, not {given[name]!r}")


class Limits(Struct, frozen=True, kw_only=True):
    """How much one peer, one connection or one server may hold."""

    message_size: int = 16 << 20
    """The largest message accepted on any transport (erlmcp's documents: 16 777 216)."""
    sent_size: int | None = None
    """The largest message sent; an answer that would be larger is an error in its place. ``None``: any."""
    websocket_size: int | None = None
    """In place of both on a WebSocket."""
    event_size: int | None = None
    """In place of both for one event of an event stream."""
    batch_size: int = 1000
    """Messages in one batch."""
    in_flight: int = 1000
    """Requests of one connection that may be running at once; one more is refused."""
    all_calls: int = 20_000
    """Requests of all connections together that may be running; the first 16 of each are not counted. As
    many that were cancelled, or whose clients have left, may not have ended yet; then what is new is refused."""
    pending: int = 1000
    """Own requests that may wait for the peer's answer at once."""
    answer_seconds: float = 600.0
    """Seconds a legacy client on a lasting connection has to answer a question; `HttpOptions` has its own."""
    tombstones: int = 1024
    """Finished or cancelled ids remembered, so that a late answer is not taken for a fresh one."""
    page_size: int = 100
    """Entries of one list page."""
    subscriptions: int = 1000
    """Resource subscriptions of one session or listen stream."""
    uri_length: int = 8192
    """Characters of an address that is kept for a subscription."""
    sessions: int = 10_000
    """Legacy HTTP sessions held in memory; the longest idle one makes room."""
    sessions_per_principal: int = 1000
    streams: int = 2000
    """Open event streams of one server."""
    events: int = 256
    """Events kept per session for ``Last-Event-ID``."""
    event_bytes: int = 1 << 20
    """Bytes of events kept per session for ``Last-Event-ID``."""
    all_event_bytes: int = 64 << 20
    """Bytes of events kept for all sessions together."""
    all_messages: int = 64 << 20
    """Bytes of large messages of all peers together being read or worked on; one more is refused (503, 1004). An
    array of more than 16 counts 4 KiB for each of its messages."""
    all_answers: int = 64 << 20
    """Bytes of large answers of all peers together that wait to be taken; one more is refused in the same way."""
    all_addresses: int = 32 << 20
    """Bytes of addresses that all peers together may subscribe to."""
    abandoned_calls: int = 1000
    """Legacy calls over HTTP that run on after their clients have hung up; one more is cancelled."""
    write_buffer: int = 1 << 20
    """Unsent bytes above which reading from that peer pauses."""
    header_bytes: int = 64 << 10
    rounds: int = 32
    """Rounds of questions one call may take."""
    request_state: int = 256 << 10
    """The largest ``requestState`` accepted or written."""
    threads: int = 32
    """Worker threads for synchronous handlers."""
    memory: int | None = None
    """Bytes this process may use; with 95 % of them calls are refused. ``None``: what its control group may, if that is
    limited."""
    loop_lag: float | None = 1.0
    """Seconds the event loop may be late, several looks in a row, before calls are refused; ``None``: any."""
    tasks: int = 1000
    """Tasks held by the task store; when it is full, finished ones make room."""

    def on_websocket(self) -> Self:
        """The limits of a WebSocket."""
        return self._sized(self.websocket_size)

    def on_events(self) -> Self:
        """The limits of an event stream."""
        return self._sized(self.event_size)

    def _sized(self, size: int | None) -> Self:
        return self if size is None else replace(self, message_size=size, sent_size=size)


class TaskOptions(Struct, frozen=True, kw_only=True):
    """How tools run as tasks, and how long their results are kept."""

    ttl: float = 3600.0
    """Seconds from its creation for which a task and its result are kept, unless a client asks otherwise."""
    longest_ttl: float = 86400.0
    """The most a client can ask for."""
    timeout: float | None = None
    """Seconds the work of one task may take; it ends with the task's time to live at the latest."""
    poll_interval: float = 1.0
    """Seconds a client is asked to wait between two looks."""


class Timeouts(Struct, frozen=True):
    """The three limits of one call. ``None`` switches one off."""

    connect: float | None = 30.0
    """Until the connection is ready."""
    idle: float | None = 30.0
    """Since the last byte or progress for this call."""
    total: float | None = 300.0
    """From sending to the answer, whatever happens in between."""

    def __post_init__(self) -> None:
        limits: tuple[Any, ...] = (self.connect, self.idle, self.total)
        for limit in limits:
            if limit is not None and not (isinstance(limit, int | float) and limit >= 0):
                raise ValueError(f"a limit is a number of seconds, 0 or more, or None, not {limit!r}")


class Reconnect(Struct, frozen=True, kw_only=True):
    """How a client comes back after a lost connection."""

    enabled: bool = True
    first: float = 1.0
    """The first wait; each further one doubles."""
    maximum: float = 30.0
    jitter: float = 0.2
    attempts: int | None = 10
    """Tries before the connection is given up; ``None`` never gives up."""
    queue: int = 0
    """Calls that may wait while the connection is away; more fail at once."""
    repeat: bool = True
    """Repeat a call by itself when its tool is read-only or idempotent."""


class HttpOptions(Struct, frozen=True, kw_only=True):
    """How a server is seen over HTTP."""

    path: str = "/mcp"
    """Where the endpoint (and the WebSocket) lives, below whatever prefix the app is mounted at."""
    sse_path: str | None = "/sse"
    messages_path: str = "/messages"
    """The HTTP+SSE pair of 2024-11-05; ``sse_path=None`` switches it off."""
    websocket: bool = True
    json_only: bool = False
    """Never answer with an event stream; clients then need to accept only ``application/json``."""
    stateless: bool = False
    """Give legacy clients no session: every POST stands alone and nothing can be asked."""
    allowed_hosts: tuple[str, ...] = ()
    """Further ``Host`` names (``name`` or ``name:port``); loopback names are always allowed on loopback."""
    allowed_origins: tuple[str, ...] = ()
    """``Origin`` values of web pages that may call, exactly as browsers send them."""
    cors: bool = False
    """Answer CORS preflights for ``allowed_origins``."""
    principal: Callable[[Mapping[str, Any]], Any] | None = None
    """Who sent the request with this ASGI scope, a `Principal` or the name of one: for surroundings that have found
    out already. Sessions, states and tasks are bound to the answer."""
    auth: Any = None
    """Who verifies tokens, in place of the server's own ``auth``: see `dovetail.auth`."""
    resource: str | None = None
    """What this server is called in its metadata; by default the audience of its tokens, or else its address."""
    authorization_servers: tuple[str, ...] = ()
    """Where clients get tokens, for a verifier that does not know; by default its issuers."""
    metrics: bool | str = False
    """Tell operators what is counted, at ``/metrics``; the environment's ``DOVETAIL_METRICS=1`` does the same. The name
    of a folder is where several processes count together that were not started by ``workers``."""
    metrics_token: str | None = None
    """What a scraper has to say as its bearer token; by default ``DOVETAIL_METRICS_TOKEN``, or nothing."""
    keep_alive: float = 15.0
    """Seconds between comments on a quiet event stream."""
    retry: int = 1000
    """Milliseconds a client is told to wait before it resumes a stream."""
    header_timeout: float = 30.0
    """Seconds a client has to send the head of a request; only where we run the HTTP server ourselves."""
    body_timeout: float = 30.0
    """Seconds a client has to send its request body."""
    write_timeout: float = 30.0
    """Seconds a client may take nothing of what was sent to it before its connection is cut."""
    answer_timeout: float = 600.0
    """Seconds a legacy client has to answer a question."""
    session_idle: float = 3600.0
    """Seconds after which an unused session leaves memory; its id stays valid for ``session_lifetime``."""
    session_lifetime: float = 86400.0
    session_ping: float | None = 300.0
    """Seconds after which the client of a quiet session is asked on its stream whether it is there; None: never."""
    drain: float = 10.0
    """Seconds calls under way have to finish once the server shuts down."""
