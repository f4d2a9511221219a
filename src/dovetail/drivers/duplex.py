"""A lasting peer: one endpoint, one link, one task for each request of the peer.

The link calls `Duplex.received` with every message; everything that can be settled at once (answers,
cancellations, refusals) is settled inside that call, and a request becomes one task that runs the service and
writes what it returns. There is no queue, no reader and no writer. Answers that are ready in the same turn of
the event loop leave in one write; a lone answer leaves at once. Servers and clients use the same class: `request` and
`notify` are there on both sides.
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
from ..settings import FLUSH_SECONDS, GRACE_SECONDS, Limits, Timeouts
from ..wire.frames import decode, too_large
from .cancellation import CancelledCalls
from .heartbeat import ConnectionHeartbeat
from .requests import Requests
from .run import Runner, ShuttingDown

VIOLATIONS: Final = 8
"""Messages that are none which a peer on TCP or a WebSocket may send; with one more it is hung up on."""

log = logging.getLogger("dovetail")

SHUTDOWN: Final = "shutdown"
"""An extension of erlmcp: answered, then the connection ends."""


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
            duplex.offer(method, data)  # nobody drains between changes
        else:
            duplex.write(data)

    async def request(self, method: str, params: Struct) -> Any:
        if self.call.session is None:
            # 2026-07-28: the server sends no requests; questions go back with the result.
            raise ServerRequestsNotSupported
        duplex = self.duplex
        try:
            return await duplex.request(method, params, duplex.patience)
        except RequestTimeout:
            raise TransportError("the client did not answer in time", cause="idle") from None

    async def drain(self) -> None:
        await self.duplex.drain()


class Duplex:
    """One connection at work. Hand it to a link as its receiver; `wait_closed` returns when all is over."""

    def __init__(
        self,
        endpoint: Endpoint,
        service: Service,
        *,
        grace: float = GRACE_SECONDS,
        wary: bool = False,
        begins: bool = False,
        quiet: float | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.service = service
        self.limits = service.limits
        self.grace = grace
        self._wary = wary
        self._begins = begins
        self._quiet = quiet
        self.heard = 0
        """Messages that have come."""
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._tasks: dict[Call, asyncio.Task[None]] = {}  # by call: an id may be used again after a cancel
        self._runner = Runner(service, endpoint.limits, running=endpoint.admission.shared.requests)
        self._requests = Requests(endpoint, self.write)
        self.request = self._requests.request
        """Ask the peer and return its decoded result: `Requests.request`."""
        self.patience = Timeouts(idle=None, total=self.limits.client_response_timeout)
        """How long a client may take to answer a question."""
        self._cancelled = CancelledCalls(self.limits.max_requests_per_connection)
        self._buffered = endpoint.admission.shared.buffered_bytes
        self._frames: list[bytes] = []
        self._held: dict[bytes, str] = {}
        self._undelivered = 0
        self._closing = False
        self._closer: asyncio.Task[None] | None = None
        self._holder: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._heartbeat: ConnectionHeartbeat | None = None
        self._session: Session | None = None
        endpoint.on_session = self._opened

    # --- what the link calls --------------------------------------------------------------------------------

    def connected(self, link: Link) -> None:
        self._link = link
        if self._begins or self._quiet is not None:
            self._heartbeat = ConnectionHeartbeat(self, begins=self._begins, quiet=self._quiet)

    def received(self, message: bytes, scope: Mapping[str, Any] | None = None) -> None:
        self.heard += 1
        if len(message) > UNCOUNTED_BYTES and not self._hold(message):
            return
        event = self.endpoint.receive(message, scope=scope)
        if type(event) is Call and not (self._closing or self._cancelled.tasks):
            self._tasks[event] = self._loop.create_task(self._answer(event), name=event.method)
        elif type(event) is PeerResponse:
            self._requests.answered(event)
        else:
            if event is not None:
                for one in event if isinstance(event, list) else (event,):
                    self._happened(one)
            endpoint = self.endpoint
            if self._wary and endpoint.unreadable > (VIOLATIONS if endpoint.decoded_any else 0):
                self._flush()
                self.hang_up()

    def _hold(self, message: bytes) -> bool:
        """Whether there is room for a large message. It counts until the calls it starts have ended."""
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

    def crowded(self) -> None:
        """A large message has not ended, and there is no room for more of it."""
        self.write(self.endpoint.refuse(busy("unfinished messages")).data)

    def ended(self) -> None:
        """Nothing more comes in: calls under way may still finish, questions of ours will not be answered."""
        self._requests.fail(None)
        if self._closer is None:
            self._closer = self._loop.create_task(self.close(drain=self.grace))

    def lost(self, error: TransportError | None) -> None:
        if not self._closing:
            for call in self._tasks:
                if call.method != LISTEN:  # that is how one ends
                    self.service.client_disconnected(call)
        self._closing = True
        self.endpoint.close()
        self._requests.fail(error)
        for call in list(self._tasks):
            self._stop(call)
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self._frames.clear()
        for method in self._held.values():
            self._drop(method, "the client has disconnected")
        self._held.clear()
        if self._undelivered > 1:
            log.warning("%d notifications to one client were not delivered", self._undelivered)
        self._session_over()
        # Each of them leads back here: what an ended connection held would wait for the collector of circles.
        self.endpoint.on_session = self._link = self._heartbeat = None
        self._lost.set()

    # --- the peer's requests --------------------------------------------------------------------------------

    def _happened(self, event: Event) -> None:
        match event:
            case Call():
                self._start(event)
            case PeerResponse():
                self._requests.answered(event)
            case Notice():
                self._noticed(event)
            case Cancel():
                self._stop(event.call)
            case Reply():
                self.write(event.data)
            case _:
                log.debug("dropped a message: %s (%s)", event.kind, event.detail)

    def _start(self, call: Call) -> None:
        error = ShuttingDown() if self._closing else self._cancelled.refusal()
        if error is not None:
            for watcher in self.endpoint.admission.watchers:
                watcher.refused(error)
            data = self.endpoint.send_error(call, error)
            if data is not None:
                self.write(data)
            return
        self._tasks[call] = self._loop.create_task(self._answer(call), name=call.method)

    async def _answer(self, call: Call) -> None:
        data, error = await self._runner.run(call, CallChannel(self, call), self.endpoint)
        if error is not None and self._session is not None and self.endpoint.session is None:
            self._session_over()  # a refused initialize takes its session with it
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
        """Send a large response and return once the peer has read it; while it has not, the response counts."""
        self._flush()  # what was written before shows whether the peer reads
        # The responses of a batch were counted when they were added to it.
        with self._buffered.sending(len(data) if call.batch is None else 0) as refusal:
            if refusal is not None:
                data = call.codec.encode_error(call.id, refusal)
            elif link.blocked:
                await link.drain()  # returns also when the peer has disconnected
            link.send(data)
            if link.blocked:
                await link.drain()

    def _stop(self, call: Call) -> None:
        call.cancelled = True
        task = self._tasks.pop(call, None)
        if task is not None and not task.done():
            task.add_done_callback(self._cancelled.finished)
            self._cancelled.cancel(task)

    def _noticed(self, notice: Notice) -> None:
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
        """Send one encoded message: at once when nothing else is going on, else with others of this turn."""
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
        """Wait until the peer has taken enough of what was sent."""
        self._flush()
        if self._link is not None:
            await self._link.drain()

    def notify(self, method: str, params: Struct | None = None) -> None:
        """Send a notification that belongs to no call."""
        data = None if self._closing else self.endpoint.send_notification(method, params)
        if data is not None:
            self.offer(method, data)

    def _drop(self, method: str, reason: str) -> None:
        """Log the first notification that is not delivered; count every one."""
        self._undelivered += 1
        if self._undelivered == 1:
            log.warning("%s was not delivered: %s", method, reason)
        self.endpoint.admission.undelivered(method)

    def offer(self, method: str, data: bytes) -> None:
        """Send what a peer may get late: one that does not read gets each different message once, when it does.

        Nothing piles up for it, however often something changes meanwhile.
        """
        if self._link is None or not self._link.blocked:
            self.write(data)
        elif len(self._held) < self.limits.max_subscriptions:
            self._held[data] = method
            if self._holder is None:
                self._holder = self._loop.create_task(self._release())
        elif data not in self._held:
            self._drop(method, f"the client does not read, and {len(self._held)} others wait for it")

    async def _release(self) -> None:
        await self.drain()
        self._holder = None
        held, self._held = self._held, {}
        for data in held:
            self.write(data)

    # --- the end --------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether anything is under way in either direction."""
        return bool(self._tasks or self._requests.waiting)

    async def close(self, *, drain: float = 0.0) -> None:
        """End the connection. Calls under way get ``drain`` seconds, then they are cancelled.

        While one close is draining, another one waits for it, unless it has no time to give.
        """
        if self._closing and drain > 0:
            await self.wait_closed()
            return
        self._closing = True
        await asyncio.sleep(0)  # listen streams that have just been completed write their result
        working = [task for call, task in self._tasks.items() if call.method != LISTEN]
        if drain > 0 and working:
            await asyncio.wait(working, timeout=drain)
        for call in list(self._tasks):
            self._stop(call)
        self._flush()
        self.hang_up()
        await self.wait_closed(FLUSH_SECONDS)

    def hang_up(self) -> None:
        """End the connection now."""
        if self._link is None:
            self.lost(None)
        else:
            self._link.close()

    async def wait_closed(self, patience: float | None = None) -> None:
        """Return when the connection and every handler it started have ended.

        ``patience`` limits both in seconds: then the link is aborted, and stubborn handlers are left.
        """
        try:
            async with asyncio.timeout(patience):
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
    wary: bool = False,
    begins: bool = False,
    quiet: float | None = None,
) -> Duplex:
    """The receiver for one new connection to ``service``; ``limits`` where the transport has some of its own.

    ``wary`` is for transports that strangers can reach: a peer that does not begin with a message is hung up on, since
    what it speaks is another protocol (the body of a web page's request, say); and so is one that goes on with rubbish.
    With ``begins`` one that says nothing is, too; after ``quiet`` seconds a legacy client is asked whether it is there.
    """
    endpoint = Endpoint(service.admission, limits or service.limits, principal=principal, scope=scope)
    return Duplex(endpoint, service, grace=grace, wary=wary, begins=wary or begins, quiet=quiet)


_users: WeakKeyDictionary[Service, int] = WeakKeyDictionary()


@asynccontextmanager
async def lifespan(service: Service) -> AsyncGenerator[None, None]:
    """Start the service with its first connection and stop it after the last."""
    _users[service] = _users.get(service, 0) + 1
    try:
        await service.start()
        yield
    finally:
        _users[service] -= 1
        if not _users[service]:
            del _users[service]
            await service.stop()
