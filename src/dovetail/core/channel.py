"""The words that core, servers, clients, drivers and transports share.

A transport hands whole messages to a `Receiver`. The receiver asks the core what they are: a `Call` to
answer, a `Notice` to take note of, an `Answer` to a request of our own, a `Cancel`, or a `Reply`, bytes that
are to be written as they are. A `Service` answers calls; while it works it speaks through a `Channel`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

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

EMPTY: Mapping[str, Any] = MappingProxyType({})


class Session(Struct, kw_only=True, eq=False, weakref=True):
    """A legacy session: what `initialize` settled, and what changed since."""

    revision: Revision
    codec: Codec
    capabilities: ClientCapabilities
    """What the *client* declared. On the client's side: its own."""
    client_info: dict[str, Any] | None = None
    id: str | None = None
    principal: Principal | None = None
    phase: str = "negotiating"
    """A state of `phases.TRANSITIONS`."""
    log_level: str | None = None
    subscriptions: set[str] | None = None
    """Made when the first resource is subscribed to."""
    notify: Callable[[str, Struct | None], None] | None = None
    """Send a notification that belongs to no call; set by the driver."""
    tasks: dict[str, tuple[float | None, str | None]] | None = None
    """The tasks begun in this session, oldest first: when each is forgotten, and what the client calls it."""
    subscriber: Any = None
    """The service's own handle for what this session listens to."""
    on_phase: Callable[[str, str, str], None] | None = None
    """Told of each change of phase: from, to, and the step that was taken."""
    elsewhere: bool = False
    """Another process tells it of changes."""
    save: Callable[[], Awaitable[None]] | None = None
    """Where sessions are kept in a store: await it after a change, before the client is told of it."""
    queue: int = 0
    """Requests that may wait while it is paused."""
    waiting: list[Callable[[], None]] | None = None
    """Whom to tell when it goes on."""

    async def pause(self, *, queue: int = 0) -> None:
        """Serve no requests until `resume`: ``queue`` of them may wait for it, others are refused (1008).

        Raises:
            StateError: it is not ready.
        """
        await self._move("pause", queue)

    async def resume(self) -> None:
        """Go on, with those that have waited first.

        Raises:
            StateError: it is not paused.
        """
        await self._move("resume", 0)
        self.proceed()

    async def _move(self, step: str, queue: int) -> None:
        from .phases import advance  # the table of steps, which knows sessions

        advance(self, step)
        self.queue = queue
        if self.save is not None:
            await self.save()

    def proceed(self) -> None:
        """Let those go on that wait."""
        waiting, self.waiting = self.waiting, None
        for go_on in waiting or ():
            go_on()


class Call(Struct, kw_only=True, eq=False):
    """One admitted request: everything checked, params decoded once."""

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
    """What the transport knows: ``transport``, ``headers``, ``client``, … Never sent anywhere."""
    cancelled: bool = False
    batch: Any = None
    """The batch this call came in, when it came in one; the endpoint's business."""
    source: Call | None = None
    """The call that came, where this one goes on in its place."""
    came: Raw | UnsetType = UNSET
    """Its params as they were written, for whoever passes it on."""

    def instead(self, params: Any) -> Call:
        """This call with other params, for whoever it is passed on to."""
        return replace(self, params=params, source=self)

    @property
    def given_up(self) -> bool:
        """Whether the client gave up: known by the call that came."""
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


class Answer(Struct, kw_only=True, eq=False):
    """The peer's answer to a request of ours; ``result`` is still raw."""

    id: RequestId
    method: str
    result: Raw | UnsetType = UNSET
    error: ProtocolError | Refusal | None = None


class Reply(Struct, eq=False):
    """Bytes to write now: a rejection, or a whole batch that has just been completed."""

    data: bytes
    status: int = 200
    """The HTTP status, where there is one."""


class Cancel(Struct, eq=False):
    """The peer wants this call stopped; it must not be answered."""

    call: Call
    reason: str | None = None


Late = tuple[RequestId, Raw | UnsetType]
"""An answer that no request waits for: its id, and the result if it has one."""


class Violation(Struct, eq=False):
    """Something to count and drop: a late answer, an unknown notification, a malformed cancel."""

    kind: str
    detail: str
    late: Late | None = None


class Rejection(Struct, eq=False):
    """A request that never becomes a call. Write ``body`` (with HTTP status ``status``)."""

    id: RequestId | None
    error: DovetailError
    status: int
    body: bytes


Admitted = Call | Notice | Rejection | Violation
Event = Call | Notice | Answer | Reply | Cancel | Violation


class Channel(Protocol):
    """What a service may do while it works on one call. `PlainChannel` has the parts few channels care for."""

    @property
    def asking(self) -> Any:
        """How the handler of this call asks, where not the era decides that: a running task. Otherwise None."""
        ...

    @property
    def streamed(self) -> bool:
        """The answer will be an event of a stream that has begun, not a response of its own."""
        ...

    @property
    def deserted(self) -> bool:
        """The client is known to have left. Costs a look: ask where only the answer names what would stay behind."""
        ...

    def notify(self, method: str, params: Struct | None) -> None:
        """Send a notification on the stream of this call."""
        ...

    async def request(self, method: str, params: Struct) -> Any:
        """Ask the client and return its decoded result.

        Raises:
            ServerRequestsNotSupported: this call cannot send requests to the client.
            ProtocolError: the client answered with an error.
        """
        ...

    async def drain(self) -> None:
        """Wait until the peer has taken what was sent."""
        ...

    async def continue_as_task(self) -> None:
        """Go on as a task, of which the client gets the id; nothing where the call cannot become one."""
        ...

    async def close_stream(self) -> None:
        """End the response but not the call; nothing where the client could not come back for the rest."""
        ...


class PlainChannel:
    """A channel of a call that cannot become a task, on a stream that cannot be resumed. Channels inherit it."""

    __slots__ = ()

    asking: Any = None

    @property
    def streamed(self) -> bool:
        return False

    @property
    def deserted(self) -> bool:
        return False

    async def continue_as_task(self) -> None: ...

    async def close_stream(self) -> None: ...


class ChannelAround(Struct, eq=False):
    """Another channel, with a way of asking of its own: for middleware."""

    channel: Channel
    asking: Any

    @property
    def streamed(self) -> bool:
        return self.channel.streamed

    @property
    def deserted(self) -> bool:
        return self.channel.deserted

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
    """This call cannot send requests to the client: the revision is modern, or the exchange is stateless."""

    kind = "server_requests_not_supported"


@runtime_checkable
class Responder(Protocol):
    """Whoever answers calls."""

    def respond(self, call: Call, channel: Channel) -> Awaitable[Struct | Raw]:
        """Answer one call: call and await it in one expression. Raises only `DovetailError`s; anything else was masked
        already."""
        ...


class Service(Responder, Protocol):
    """What a driver or transport needs of a server. Inherit it to do without what has a body here."""

    limits: Limits
    admission: Admission
    auth: Any = None
    """Who verifies tokens; None for nobody."""

    async def start(self) -> None:
        """Be ready: called before the first connection, perhaps more than once."""

    async def stop(self) -> None:
        """The last connection has ended."""

    def end_listening(self) -> None:
        """Complete every ``subscriptions/listen``: the connections are about to be closed."""

    def receive_notification(self, notice: Notice) -> None:
        """Take note of a notification. Never raises, never blocks."""

    def session_opened(self, session: Session) -> None:
        """A legacy session begins; its ``notify`` is set."""

    def session_changed(self, session: Session, subscriptions: Collection[str]) -> None:
        """Another process has changed it: these are its subscriptions now."""

    def session_recovered(self, session: Session, *, lately: bool = False) -> None:
        """It may have missed news: tell it that anything may have changed, or what has lately."""

    def session_closed(self, session: Session) -> None:
        """It is over."""

    def client_disconnected(self, call: Call) -> None:
        """The client left while ``call`` was running: nobody hears its answer."""


class Watcher(Protocol):
    """Whoever wants to know what becomes of messages that are no calls. Never raises, never blocks."""

    def refused(self, error: DovetailError) -> None:
        """A message was answered with ``error`` and did not become a call."""
        ...

    def violated(self, kind: str, detail: str) -> None:
        """A message was dropped: a `Violation`."""
        ...

    def undelivered(self, method: str) -> None:
        """A notification could not be sent: the client does not read, or has disconnected."""
        ...

    def resumed(self) -> None:
        """A client came back for a stream it had lost."""
        ...


class Carrier(Protocol):
    """Whoever has something to say in the ``_meta`` of every request of ours."""

    def carry(self, method: str | None = None) -> Mapping[str, Any]:
        """Members of ``_meta``, of a request by ``method`` if it is one; what a caller has put there wins."""
        ...

    def sent(self, id: RequestId) -> Callable[[BaseException | None], None] | None:
        """The request that was just asked about has this id. What is returned wants to hear how it ends."""
        ...


class Process(Protocol):
    """The child process behind a link."""

    @property
    def returncode(self) -> int | None:
        """How it ended; None as long as it runs."""
        ...

    @property
    def stderr_tail(self) -> str:
        """The last of what it said on stderr."""
        ...

    def kill(self) -> None:
        """End it and all it started, at once."""
        ...


class Link(Protocol):
    """A way to the peer that carries whole messages. Transports inherit it."""

    blocked: bool = False
    """The peer takes no more for the moment; `drain` waits."""

    @property
    def process(self) -> Process | None:
        """The child process the peer is, if it is one of ours."""
        return None

    def send(self, message: bytes) -> None:
        """Send one message; the link adds its own framing. Never blocks; silent after close."""
        ...

    def send_many(self, messages: list[bytes]) -> None:
        """Send several messages, in one write where the link can."""
        for message in messages:
            self.send(message)

    async def drain(self) -> None: ...

    def pause(self) -> None:
        """Stop reading until `resume`."""
        ...

    def resume(self) -> None: ...

    def close(self) -> None:
        """Flush what was sent, then close."""
        ...

    def abort(self) -> None: ...

    async def wait_closed(self) -> None:
        """Wait until a closed link has let go of everything."""


class Receiver(Protocol):
    """Whoever takes what a link delivers. Drivers implement it."""

    def connected(self, link: Link) -> None: ...

    def received(self, message: bytes) -> None: ...

    def oversized(self, limit: int) -> None:
        """A message outgrew the limit; the link is closed after this returns."""
        ...

    def ended(self) -> None:
        """The peer will send nothing more but may still read. `lost` follows when the link is closed."""
        ...

    def lost(self, error: TransportError | None) -> None:
        """The peer is gone (``None``: an orderly end). Called exactly once."""
        ...
