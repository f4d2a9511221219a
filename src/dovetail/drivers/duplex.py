"""The driver for a lasting connection: one endpoint, one link, one task per request of the peer.

The link calls `Duplex.received` with every message. Responses, cancellations and refusals take effect inside
that call. A request becomes one task that runs the service and writes the response. There are no queues and
no reader or writer tasks. Responses that are ready in the same event loop iteration are sent in one write; a
single response is sent at once. Servers and clients use the same class; both sides have `request` and
`notify`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from weakref import WeakKeyDictionary

from msgspec import UNSET, Struct

from ..core.channel import (
    EMPTY,
    Call,
    Cancel,
    Event,
    Link,
    Notice,
    PeerResponse,
    PlainChannel,
    Reply,
    ServerRequestsNotSupported,
    Service,
    Session,
)
from ..core.endpoint import CANCELLED, LISTEN, PROGRESS, Endpoint
from ..core.limits import UNCOUNTED_BYTES, SharedLimit, busy
from ..core.principal import Principal
from ..errors import RemoteProtocolError, RequestTimeout, TransportError
from ..model import CancelledNotificationParams
from ..settings import Limits, Timeouts
from ..wire.frames import decode, too_large
from .cancellation import CancelledCalls
from .heartbeat import ConnectionHeartbeat
from .requests import Requests
from .run import GRACE_SECONDS, Runner, ShuttingDown

FLUSH_SECONDS: Final = 1.0
"""Seconds for a peer to read the last bytes, and for cancelled handlers to end."""


MAX_INVALID_MESSAGES: Final = 8
"""Invalid messages that a peer on TCP or a WebSocket may send. One more closes the connection."""

log = logging.getLogger("dovetail")

SHUTDOWN: Final = "shutdown"
"""An erlmcp extension: the server responds, then closes the connection."""


class CallChannel(PlainChannel, Struct, eq=False):
    """What the service may do while it works on one call."""

    duplex: Duplex
    call: Call

    def notify(self, method: str, params: Struct | None) -> None:
        duplex = self.duplex
        data = duplex.endpoint.send_notification(method, params, call=self.call)
        if data is None:
            return
        if self.call.method == LISTEN:
            # the notifications of a listen stream have no task that waits for the peer
            duplex.notify_when_writable(method, data)
        else:
            duplex.write(data)

    async def request(self, method: str, params: Struct) -> Any:
        if self.call.session is None:
            # 2026-07-28: servers send no requests. Input requests are part of the result.
            raise ServerRequestsNotSupported
        duplex = self.duplex
        try:
            return await duplex.request(method, params, duplex.client_response_timeouts)
        except RequestTimeout:
            raise TransportError("the client did not respond in time", cause="idle") from None

    async def drain(self) -> None:
        await self.duplex.drain()


class Duplex:
    """The driver of one connection.

    Pass it to a link as its receiver. `wait_closed` returns when everything has ended.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        service: Service,
        *,
        grace: float = GRACE_SECONDS,
        untrusted: bool = False,
        begins: bool = False,
        quiet: float | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.service = service
        self.limits = service.limits
        self.grace = grace
        self._untrusted = untrusted
        self._begins = begins
        self._quiet = quiet
        self.received_count = 0
        """Number of messages received."""
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        # keyed by call: an id may be used again after a cancellation
        self._tasks: dict[Call, asyncio.Task[None]] = {}
        self._runner = Runner(service, endpoint.limits, running=endpoint.admission.shared.requests)
        self._requests = Requests(endpoint, self.write)
        self.request = self._requests.request
        """Send a request to the peer and return its decoded result: `Requests.request`."""
        self.client_response_timeouts = Timeouts(idle=None, total=self.limits.client_response_timeout)
        """The time a client has to respond to a request."""
        self._cancelled = CancelledCalls(self.limits.max_requests_per_connection)
        self._buffered = endpoint.admission.shared.buffered_bytes
        self._frames: list[bytes] = []
        self._deferred: dict[bytes, str] = {}
        self._undelivered = 0
        self._closing = False
        self._closer: asyncio.Task[None] | None = None
        self._holder: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._heartbeat: ConnectionHeartbeat | None = None
        self._session: Session | None = None
        endpoint.on_session = self._opened

    # --- called by the link ---------------------------------------------------------------------------------

    def connected(self, link: Link) -> None:
        self._link = link
        if self._begins or self._quiet is not None:
            self._heartbeat = ConnectionHeartbeat(self, begins=self._begins, quiet=self._quiet)

    def received(self, message: bytes, scope: Mapping[str, Any] | None = None) -> None:
        self.received_count += 1
        if len(message) > UNCOUNTED_BYTES and not self._reserve(message):
            return
        event = self.endpoint.receive(message, scope=scope)
        if type(event) is Call and not (self._closing or self._cancelled.tasks):
            self._tasks[event] = self._loop.create_task(self._respond(event), name=event.method)
        elif type(event) is PeerResponse:
            self._requests.answered(event)
        else:
            if event is not None:
                for one in event if isinstance(event, list) else (event,):
                    self._handle_event(one)
            endpoint = self.endpoint
            if self._untrusted and endpoint.unreadable > (
                MAX_INVALID_MESSAGES if endpoint.decoded_any else 0
            ):
                self._flush()
                self.disconnect()

    def _reserve(self, message: bytes) -> bool:
        """Reserve buffer space for a large message until its calls have ended.

        Returns False if the limit is reached.
        """
        buffered, size = self._buffered, len(message)
        if not buffered.acquire(size):
            try:
                id = decode(message).id
            except RemoteProtocolError as error:
                id = error.id
            self.write(self.endpoint.refuse(busy("request bodies"), None if id is UNSET else id).data)
            return False
        before = set(self._tasks)

        def release() -> None:
            begun = [task for call, task in self._tasks.items() if call not in before]
            if begun:
                self._loop.create_task(_release_after(begun, buffered, size))
            else:
                buffered.release(size)

        self._loop.call_soon(release)
        return True

    def oversized(self, limit: int) -> None:
        self.write(self.endpoint.refuse(too_large(limit)).data)

    def refuse_unfinished(self) -> None:
        """Refuse an unfinished large message: the limit on buffered bytes is reached."""
        self.write(self.endpoint.refuse(busy("unfinished messages")).data)

    def ended(self) -> None:
        """The peer sends no more. Running calls may finish; requests to the peer will get no response."""
        self._requests.fail(None)
        if self._closer is None:
            self._closer = self._loop.create_task(self.close(drain=self.grace))

    def lost(self, error: TransportError | None) -> None:
        if not self._closing:
            for call in self._tasks:
                if call.method != LISTEN:  # a listen stream ends this way
                    self.service.client_disconnected(call)
        self._closing = True
        self.endpoint.close()
        self._requests.fail(error)
        for call in list(self._tasks):
            self._stop(call)
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self._frames.clear()
        for method in self._deferred.values():
            self._drop(method, "the client has disconnected")
        self._deferred.clear()
        if self._undelivered > 1:
            log.warning("notifications not delivered count=%d", self._undelivered)
        self._session_over()
        # These callbacks refer to this object. Without clearing them, only the garbage collector could free
        # the connection.
        self.endpoint.on_session = self._link = self._heartbeat = None
        self._lost.set()

    # --- requests of the peer -------------------------------------------------------------------------------

    def _handle_event(self, event: Event) -> None:
        match event:
            case Call():
                self._start(event)
            case PeerResponse():
                self._requests.answered(event)
            case Notice():
                self._handle_notice(event)
            case Cancel():
                self._stop(event.call)
            case Reply():
                self.write(event.data)
            case _:
                log.debug("message dropped kind=%s detail=%r", event.kind, event.detail)

    def _start(self, call: Call) -> None:
        error = ShuttingDown() if self._closing else self._cancelled.refusal()
        if error is not None:
            for watcher in self.endpoint.admission.watchers:
                watcher.refused(error)
            data = self.endpoint.send_error(call, error)
            if data is not None:
                self.write(data)
            return
        self._tasks[call] = self._loop.create_task(self._respond(call), name=call.method)

    async def _respond(self, call: Call) -> None:
        data, error = await self._runner.run(call, CallChannel(self, call), self.endpoint)
        if error is not None and self._session is not None and self.endpoint.session is None:
            self._session_over()  # a failed initialize ends its session
        if data is not None and len(data) > UNCOUNTED_BYTES and self._link is not None:
            await self._send_large(call, data, self._link)
            data = None
        self._tasks.pop(call, None)
        if data is None:
            return
        frames = self._frames
        if not frames and not self._tasks:
            if self._link is not None:
                self._link.send(data)
        else:
            frames.append(data)
            if not self._tasks:
                self._flush()
            elif len(frames) == 1:
                self._loop.call_soon(self._flush)
        if call.method == SHUTDOWN:
            self.ended()
        elif call.method == LISTEN and error is None:
            # One page of 2026-07-28 ends a listen stream with its result, another with this notification.
            farewell = CancelledNotificationParams(call.id)
            self.write(call.codec.encode_notification(CANCELLED, farewell))

    async def _send_large(self, call: Call, data: bytes, link: Link) -> None:
        """Send a large response and return once the peer has read it. Until then it counts as buffered."""
        self._flush()  # send pending data first, to see whether the peer reads
        # The responses of a batch were counted when they were added to it.
        with self._buffered.sending(len(data) if call.batch is None else 0) as refusal:
            if refusal is not None:
                data = call.codec.encode_error(call.id, refusal)
            elif link.blocked:
                await link.drain()  # also returns when the peer has disconnected
            link.send(data)
            if link.blocked:
                await link.drain()

    def _stop(self, call: Call) -> None:
        call.cancelled = True
        task = self._tasks.pop(call, None)
        if task is not None and not task.done():
            task.add_done_callback(self._cancelled.finished)
            self._cancelled.cancel(task)

    def _handle_notice(self, notice: Notice) -> None:
        if notice.method == PROGRESS and self._requests.progressed(notice.params):
            return
        self.service.receive_notification(notice)
        if notice.method == SHUTDOWN:
            self.ended()

    def _opened(self, session: Session) -> None:
        session.notify = self.notify
        self._session = session
        self.service.session_opened(session)

    def _session_over(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self.service.session_closed(session)
            session.notify = None

    # --- writing --------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send one encoded message: at once if nothing else is pending, else together with others of this
        loop iteration."""
        frames = self._frames
        if frames:
            frames.append(data)
        elif self._tasks or len(self._requests.waiting) > 1:
            frames.append(data)
            self._loop.call_soon(self._flush)
        elif self._link is not None:
            self._link.send(data)

    def _flush(self) -> None:
        frames = self._frames
        if frames and self._link is not None:
            self._frames = []
            self._link.send_many(frames)

    async def drain(self) -> None:
        """Wait until the peer has read enough of what was sent (backpressure)."""
        self._flush()
        if self._link is not None:
            await self._link.drain()

    def notify(self, method: str, params: Struct | None = None) -> None:
        """Send a notification that belongs to no call."""
        data = None if self._closing else self.endpoint.send_notification(method, params)
        if data is not None:
            self.notify_when_writable(method, data)

    def _drop(self, method: str, reason: str) -> None:
        """Log the first undelivered notification of this connection, and count every one."""
        self._undelivered += 1
        if self._undelivered == 1:
            log.warning("notification not delivered method=%s reason=%r", method, reason)
        self.endpoint.admission.undelivered(method)

    def notify_when_writable(self, method: str, data: bytes) -> None:
        """Send a notification that may be delayed.

        While the client does not read (backpressure), each distinct message is stored once and sent later.

        The stored messages are bounded, however often something changes.
        """
        if self._link is None or not self._link.blocked:
            self.write(data)
        elif len(self._deferred) < self.limits.max_subscriptions:
            self._deferred[data] = method
            if self._holder is None:
                self._holder = self._loop.create_task(self._send_deferred())
        elif data not in self._deferred:
            self._drop(method, f"the client does not read; {len(self._deferred)} notifications wait already")

    async def _send_deferred(self) -> None:
        await self.drain()
        self._holder = None
        held, self._deferred = self._deferred, {}
        for data in held:
            self.write(data)

    # --- closing --------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether any request is in progress in either direction."""
        return bool(self._tasks or self._requests.waiting)

    async def close(self, *, drain: float = 0.0) -> None:
        """Close the connection (graceful shutdown).

        Running calls get ``drain`` seconds, then they are cancelled.

        A second close waits for the first one, unless its own ``drain`` is 0.
        """
        if self._closing and drain > 0:
            await self.wait_closed()
            return
        self._closing = True
        await asyncio.sleep(0)  # completed listen streams write their result now
        working = [task for call, task in self._tasks.items() if call.method != LISTEN]
        if drain > 0 and working:
            await asyncio.wait(working, timeout=drain)
        for call in list(self._tasks):
            self._stop(call)
        self._flush()
        self.disconnect()
        await self.wait_closed(FLUSH_SECONDS)

    def disconnect(self) -> None:
        """Close the connection now."""
        if self._link is None:
            self.lost(None)
        else:
            self._link.close()

    async def wait_closed(self, timeout: float | None = None) -> None:
        """Return when the connection and all its handlers have ended.

        ``timeout`` limits both in seconds. After that the link is aborted, and handlers that still run are
        ignored.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._lost.wait()
        except TimeoutError:
            if self._link is not None:
                self._link.abort()
            if not self._lost.is_set():
                self.lost(None)
        if self._holder is not None:
            self._holder.cancel()
        others = self._cancelled.tasks - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=FLUSH_SECONDS)


async def _release_after(tasks: list[asyncio.Task[None]], buffered: SharedLimit, size: int) -> None:
    await asyncio.wait(tasks)
    buffered.release(size)


def accept(
    service: Service,
    *,
    principal: Principal | None = None,
    scope: Mapping[str, Any] = EMPTY,
    grace: float = GRACE_SECONDS,
    limits: Limits | None = None,
    untrusted: bool = False,
    begins: bool = False,
    quiet: float | None = None,
) -> Duplex:
    """Create the receiver for a new connection to ``service``. ``limits`` replaces the limits of the service.

    ``untrusted`` is for transports that unknown peers can reach. A peer whose first message is invalid (such
    as an HTTP request) is disconnected; so is one that sends many invalid messages. With ``begins``, a peer
    that sends nothing is disconnected too. After ``quiet`` idle seconds a legacy client gets a ping.
    """
    endpoint = Endpoint(service.admission, limits or service.limits, principal=principal, scope=scope)
    return Duplex(
        endpoint, service, grace=grace, untrusted=untrusted, begins=untrusted or begins, quiet=quiet
    )


_users: WeakKeyDictionary[Service, int] = WeakKeyDictionary()


@asynccontextmanager
async def lifespan(service: Service) -> AsyncGenerator[None, None]:
    """Start the service with its first connection and stop it after the last one."""
    _users[service] = _users.get(service, 0) + 1
    try:
        await service.start()
        yield
    finally:
        _users[service] -= 1
        if not _users[service]:
            del _users[service]
            await service.stop()
