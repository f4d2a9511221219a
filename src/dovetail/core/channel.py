"""The interfaces between core, servers, clients, drivers and transports.

A transport hands whole messages to a `Receiver`. The receiver lets the core classify each one: a `Call` to
serve, a `Notice`, a `PeerResponse` to a request of this side, a `Cancel`, or a `Reply` with bytes to write. A
`Service` serves calls. While it runs, it sends messages through a `Channel`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from ..errors import DovetailError, ProtocolError, Refusal, TransportError
from ..model import ClientCapabilities
from ..settings import Limits
from ..wire.codec import Codec
from ..wire.frames import RequestId
from ..wire.revisions import Revision
from .principal import Principal

if TYPE_CHECKING:
    from .admit import Admission

MAX_STDERR_SHOWN: Final = 1000
"""Characters of a server's stderr that an error message shows."""


EMPTY: Mapping[str, Any] = MappingProxyType({})


class Session(Struct, kw_only=True, eq=False, weakref=True):
    """A legacy session: what ``initialize`` negotiated, and what changed since."""

    revision: Revision
    codec: Codec
    capabilities: ClientCapabilities
    """The capabilities of the client. In a client, its own capabilities."""
    client_info: dict[str, Any] | None = None
    id: str | None = None
    principal: Principal | None = None
    phase: str = "negotiating"
    """A state of `phases.TRANSITIONS`."""
    log_level: str | None = None
    subscriptions: set[str] | None = None
    """Subscribed resource URIs. Created with the first subscription."""
    notify: Callable[[str, Struct | None], None] | None = None
    """Send a notification that belongs to no call. The driver sets it."""
    tasks: dict[str, tuple[float | None, str | None]] | None = None
    """Tasks created in this session, oldest first: expiry time and the id that the client uses."""
    subscriber: Any = None
    """Handle of the service for the subscriptions of this session."""
    on_phase: Callable[[str, str, str], None] | None = None
    """Called after each change of phase with the old phase, the new phase and the event."""
    notified_remotely: bool = False
    """Another process sends the change notifications of this session."""
    save: Callable[[], Awaitable[None]] | None = None
    """Save the session to the store.

    Await it after a change and before the response that reports the change.
    """
    queue: int = 0
    """Requests that may wait while the session is paused."""
    waiting: list[Callable[[], None]] | None = None
    """Callbacks of the waiting requests, called on `resume`."""

    async def pause(self, *, queue: int = 0) -> None:
        """Stop serving requests until `resume`. Up to ``queue`` requests wait; others are refused (1008).

        Raises:
            StateError: the session is not ready.
        """
        await self._move("pause", queue)

    async def resume(self) -> None:
        """Serve requests again, the waiting ones first.

        Raises:
            StateError: the session is not paused.
        """
        await self._move("resume", 0)
        self.wake_waiting()

    async def _move(self, step: str, queue: int) -> None:
        from .phases import advance  # imported here because `phases` imports this module

        advance(self, step)
        self.queue = queue
        if self.save is not None:
            await self.save()

    def wake_waiting(self) -> None:
        """Wake the waiting requests."""
        waiting, self.waiting = self.waiting, None
        for go_on in waiting or ():
            go_on()


class Call(Struct, kw_only=True, eq=False):
    """One admitted request: all checks passed, params decoded once."""

    id: RequestId
    method: str
    params: Any
    revision: Revision
    codec: Codec
    capabilities: ClientCapabilities
    meta: Mapping[str, Any] = EMPTY
    client_info: Mapping[str, Any] | None = None
    session: Session | None = None
    principal: Principal | None = None
    scope: Mapping[str, Any] = EMPTY
    """Facts from the transport: ``transport``, ``headers``, ``client``, … Never sent to a peer."""
    cancelled: bool = False
    batch: Any = None
    """The batch of this call, if it came in one. Used by the endpoint only."""
    source: Call | None = None
    """The original call, if this call replaces it."""
    raw_params: Raw | UnsetType = UNSET
    """The params as the peer wrote them, for forwarding."""

    def with_params(self, params: Any) -> Call:
        """Copy this call with other params, for forwarding it."""
        return replace(self, params=params, source=self)

    @property
    def client_cancelled(self) -> bool:
        """Whether the client cancelled the original call."""
        call = self
        while call.source is not None:
            call = call.source
        return call.cancelled


class Notice(Struct, kw_only=True, eq=False):
    """One admitted notification."""

    method: str
    params: Any
    revision: Revision | None = None
    session: Session | None = None
    principal: Principal | None = None
    scope: Mapping[str, Any] = EMPTY


class PeerResponse(Struct, kw_only=True, eq=False):
    """The peer's response to a request of this side; ``result`` is not decoded yet."""

    id: RequestId
    method: str
    result: Raw | UnsetType = UNSET
    error: ProtocolError | Refusal | None = None


class Reply(Struct, eq=False):
    """Bytes to write now: an error response, or a batch whose last reply was added."""

    data: bytes
    status: int = 200
    """The HTTP status, used over HTTP only."""


class Cancel(Struct, eq=False):
    """The peer cancels this call. It gets no response."""

    call: Call
    reason: str | None = None


LateResponse = tuple[RequestId, Raw | UnsetType]
"""A response that no request waits for: its id, and the result if it has one."""


class Violation(Struct, eq=False):
    """A message to count and drop: a late response, an unknown notification, a malformed cancellation."""

    kind: str
    detail: str
    late: LateResponse | None = None


class Rejection(Struct, eq=False):
    """A request that was not admitted. Write ``body`` (with HTTP status ``status``)."""

    id: RequestId | None
    error: DovetailError
    status: int
    body: bytes


Admitted = Call | Notice | Rejection | Violation
Event = Call | Notice | PeerResponse | Reply | Cancel | Violation


class Channel(Protocol):
    """What a service may do while it works on one call.

    `PlainChannel` has defaults for the optional parts.
    """

    @property
    def asking(self) -> Any:
        """How the handler of this call requests input if the era does not decide it, as in a running task;
        otherwise None."""
        ...

    @property
    def streamed(self) -> bool:
        """Whether the response will be an event on a stream that has begun, and not a separate HTTP response."""
        ...

    @property
    def disconnected(self) -> bool:
        """Whether the client is known to have disconnected.

        The check costs a system call; use it only before creating something that must be released later.
        """
        ...

    def notify(self, method: str, params: Struct | None) -> None:
        """Send a notification on the stream of this call."""
        ...

    async def request(self, method: str, params: Struct) -> Any:
        """Send a request to the client and return its decoded result.

        Raises:
            ServerRequestsNotSupported: this call cannot send requests to the client.
            ProtocolError: the client responded with an error.
        """
        ...

    async def drain(self) -> None:
        """Wait until the peer has read enough of what was sent (backpressure)."""
        ...

    async def continue_as_task(self) -> None:
        """Continue as a task and send its id to the client. Does nothing if the call cannot become a task."""
        ...

    async def close_stream(self) -> None:
        """Close the response stream but keep the call running.

        Does nothing if the client cannot resume the stream.
        """
        ...


class PlainChannel:
    """A channel for a call that cannot become a task, on a stream that cannot be resumed.

    Channels inherit from it.
    """

    __slots__ = ()

    asking: Any = None

    @property
    def streamed(self) -> bool:
        return False

    @property
    def disconnected(self) -> bool:
        return False

    async def continue_as_task(self) -> None: ...

    async def close_stream(self) -> None: ...


class ChannelWrapper(Struct, eq=False):
    """A channel that replaces how another channel requests input. Middleware uses it."""

    channel: Channel
    asking: Any

    @property
    def streamed(self) -> bool:
        return self.channel.streamed

    @property
    def disconnected(self) -> bool:
        return self.channel.disconnected

    def notify(self, method: str, params: Struct | None) -> None:
        self.channel.notify(method, params)

    async def request(self, method: str, params: Struct) -> Any:
        return await self.channel.request(method, params)

    async def drain(self) -> None:
        await self.channel.drain()

    async def continue_as_task(self) -> None:
        await self.channel.continue_as_task()

    async def close_stream(self) -> None:
        await self.channel.close_stream()


class ServerRequestsNotSupported(DovetailError):
    """The call cannot send requests to the client: the revision is modern, or the exchange is stateless."""

    kind = "server_requests_not_supported"


@runtime_checkable
class Responder(Protocol):
    """Serves calls."""

    def respond(self, call: Call, channel: Channel) -> Awaitable[Struct | Raw]:
        """Serve one call.

        Call it and await it in one expression. It raises `DovetailError` only; other exceptions were masked
        before.
        """
        ...


class Service(Responder, Protocol):
    """What a driver or transport needs of a server. Inherit from it to get the default methods."""

    limits: Limits
    admission: Admission
    auth: Any = None
    """The token verifier, or None without authentication."""

    async def start(self) -> None:
        """Start the service. Called before the first connection, possibly more than once."""

    async def stop(self) -> None:
        """Stop the service. Called after the last connection has ended."""

    def end_listening(self) -> None:
        """Complete every ``subscriptions/listen`` before the connections close (graceful shutdown)."""

    def receive_notification(self, notice: Notice) -> None:
        """Handle a notification. Never raises, never blocks."""

    def session_opened(self, session: Session) -> None:
        """Register a new legacy session. Its ``notify`` is set."""

    def session_changed(self, session: Session, subscriptions: Collection[str]) -> None:
        """Apply new subscriptions that another process received for the session."""

    def delivered_changes(self, session: Session) -> dict[str, int]:
        """Return, by process, the newest change that a session was notified of."""
        return {}

    def session_recovered(
        self, session: Session, *, lately: bool = False, delivered: Mapping[str, int] | None = None
    ) -> None:
        """Notify a session that may have missed changes: of everything, or (``lately``) of recent changes
        that are not ``delivered``."""

    def session_closed(self, session: Session) -> None:
        """Forget a session that has ended."""

    def client_disconnected(self, call: Call) -> None:
        """Handle a client disconnect during ``call``. The response cannot be delivered."""


class Watcher(Protocol):
    """Observer of messages that do not become calls. Never raises, never blocks."""

    def refused(self, error: DovetailError) -> None:
        """A message was answered with ``error`` and did not become a call."""
        ...

    def violated(self, kind: str, detail: str) -> None:
        """A message was dropped as a `Violation`."""
        ...

    def undelivered(self, method: str) -> None:
        """A notification could not be sent: the client does not read, or has disconnected."""
        ...

    def coerced(self, tool: str) -> None:
        """Arguments of a tool fitted only after texts in them were coerced to their declared types."""
        ...

    def resumed(self) -> None:
        """A client reconnected to a stream and resumed it."""
        ...


class MetaProvider(Protocol):
    """Adds members to the ``_meta`` of every outgoing request, such as a trace context."""

    def request_meta(self, method: str | None = None) -> Mapping[str, Any]:
        """Return members of ``_meta``, for a request by ``method`` if given.

        Members set by the caller take precedence.
        """
        ...

    def sent(self, id: RequestId) -> Callable[[BaseException | None], None] | None:
        """Record that a request was sent with this id. The returned callback is called with the outcome."""
        ...


class Process(Protocol):
    """The child process at the other end of a link."""

    @property
    def returncode(self) -> int | None:
        """The exit code, or None while the process runs."""
        ...

    @property
    def stderr_tail(self) -> str:
        """The last lines that the process wrote to stderr."""
        ...

    def kill(self) -> None:
        """Kill the process and all its children at once."""
        ...


class Link(Protocol):
    """A connection to the peer that carries whole messages. Transports inherit from it."""

    blocked: bool = False
    """The write buffer is full (backpressure); `drain` waits until it is not."""

    @property
    def process(self) -> Process | None:
        """The child process of this link, if the link started one."""
        return None

    def send(self, message: bytes) -> None:
        """Send one message. The link adds its framing. Never blocks; ignored after close."""
        ...

    def send_many(self, messages: list[bytes]) -> None:
        """Send several messages, in one write if the link supports it."""
        for message in messages:
            self.send(message)

    async def drain(self) -> None: ...

    def pause(self) -> None:
        """Stop reading until `resume` (backpressure)."""
        ...

    def resume(self) -> None: ...

    def close(self) -> None:
        """Flush the write buffer, then close."""
        ...

    def abort(self) -> None: ...

    async def wait_closed(self) -> None:
        """Wait until a closed link has released all its resources."""


class Receiver(Protocol):
    """Receives the messages of a link. Drivers implement it."""

    def connected(self, link: Link) -> None: ...

    def received(self, message: bytes) -> None: ...

    def oversized(self, limit: int) -> None:
        """Report a message that exceeded ``limit``. The link closes after this returns."""
        ...

    def ended(self) -> None:
        """The peer will send nothing more but may still read. `lost` follows when the link is closed."""
        ...

    def lost(self, error: TransportError | None) -> None:
        """The connection has ended (``None``: in order). Called exactly once."""
        ...
