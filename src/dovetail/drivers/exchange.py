"""One message in, its reply out: for everything that has no lasting peer.

`Server.handle` and stateless HTTP are this. Nothing is kept from one message to the next, so nobody can be asked
anything; an `Endpoint` of its own gives each message the same rules as on any connection, those of batches included.
It runs in the task of whoever calls it; only the calls of a batch get tasks of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from msgspec import Struct

from ..core.channel import (
    EMPTY,
    Call,
    Event,
    Notice,
    PlainChannel,
    Reply,
    ServerRequestsNotSupported,
    Service,
    Session,
    Violation,
)
from ..core.endpoint import LISTEN, Endpoint
from ..core.principal import Principal
from ..errors import DovetailError, ProtocolError
from ..wire.frames import Frame, too_large
from ..wire.headers import RoutingHeaders
from .run import Outcome, Runner, status_of

ACCEPTED = 202
"""There is nothing to say."""


class Writer(Protocol):
    """Where messages go that come before the reply.

    The first one usually turns a plain answer into an event stream, so a writer is asked for nothing until
    the service has something to say. Whatever `notify` took must reach the peer before the reply.
    """

    def notify(self, message: bytes) -> None:
        """Take one encoded notification. Never blocks, never raises; silent after the peer has gone."""
        ...

    async def drain(self) -> None:
        """Wait until the peer has taken enough of what was given to `notify`."""
        ...

    @property
    def started(self) -> bool:
        """Something was said: the reply will be an event of a stream."""
        ...


class Nobody:
    """A writer where nothing can be said before the reply."""

    def notify(self, message: bytes) -> None: ...

    async def drain(self) -> None: ...

    @property
    def started(self) -> bool:
        return False


NOBODY = Nobody()


class ExchangeChannel(PlainChannel, Struct, eq=False):
    """What the service may do while it works on a call that has no way back."""

    endpoint: Endpoint
    call: Call
    writer: Writer

    @property
    def streamed(self) -> bool:
        return self.writer.started

    def notify(self, method: str, params: Struct | None) -> None:
        data = self.endpoint.send_notification(method, params, call=self.call)
        if data is not None:
            self.writer.notify(data)

    async def request(self, method: str, params: Struct) -> Any:
        raise ServerRequestsNotSupported

    async def drain(self) -> None:
        await self.writer.drain()


async def exchange(
    service: Service,
    message: bytes | str | Frame,
    *,
    session: Session | None = None,
    headers: RoutingHeaders | None = None,
    principal: Principal | None = None,
    scope: Mapping[str, Any] = EMPTY,
    writer: Writer = NOBODY,
    runner: Runner | None = None,
    begun: list[Call] | None = None,
    failed: Callable[[DovetailError], None] | None = None,
) -> tuple[int, bytes | None]:
    """Answer one message or batch: the HTTP status, and the reply unless there is nothing to say.

    ``session`` is what a legacy message is served in; without one it is told to initialize. Write what ``writer`` was
    given, then the reply. ``runner`` is that of the app, which knows when it shuts down; ``begun`` gets the calls
    before they run, ``failed`` hears of the error of a single one. Raises nothing for what a message holds;
    `asyncio.CancelledError` means that nobody waits for the reply.
    """
    limits = service.limits
    limits = (
        limits if limits.max_event_bytes is None else limits.on_events()
    )  # for what is said before the reply
    endpoint = Endpoint(service.admission, limits, principal=principal, scope=scope, session=session)
    runner = runner or Runner(service, service.limits, running=service.admission.shared.requests)
    event = _receive(endpoint, message, headers, service.limits.max_message_bytes)
    calls = [] if begun is None else begun
    if isinstance(event, list):
        reply = await _batch(service, endpoint, event, writer, runner, calls)
        return ACCEPTED if reply is None else 200, reply
    if not isinstance(event, Call):
        return _settled(service, endpoint, event)
    if event.method == LISTEN and writer is NOBODY:
        # It would wait for ever, and nobody would hear anything.
        error = ProtocolError("subscription_failed", "there is no stream here to listen on")
        return service.admission.status_of(error, event.codec), endpoint.send_error(event, error)
    calls.append(event)
    reply, failure = await runner.run(event, ExchangeChannel(endpoint, event, writer), endpoint)
    if failure is not None and failed is not None:
        failed(failure)
    return 200 if failure is None else status_of(service.admission, event, failure), reply


def _receive(
    endpoint: Endpoint, message: bytes | str | Frame, headers: RoutingHeaders | None, limit: int
) -> Event | list[Event] | None:
    if isinstance(message, Frame):
        return endpoint.receive_frame(message, headers=headers)
    data = message.encode(errors="surrogatepass") if isinstance(message, str) else message
    oversized = len(data) > limit
    return endpoint.refuse(too_large(limit)) if oversized else endpoint.receive(data, headers=headers)


async def _batch(
    service: Service,
    endpoint: Endpoint,
    events: list[Event],
    writer: Writer,
    runner: Runner,
    calls: list[Call],
) -> bytes | None:
    """Run the calls of a batch together. The last one settled brings the replies of all."""
    reply: bytes | None = None
    for event in events:
        if isinstance(event, Call) and not event.cancelled:
            calls.append(event)
        elif isinstance(event, Reply):
            reply = event.data
        elif isinstance(event, Notice):
            service.receive_notification(event)

    def run(call: Call) -> Coroutine[Any, Any, Outcome]:
        return runner.run(call, ExchangeChannel(endpoint, call, writer), endpoint)

    if calls and calls[0].batch is not None:
        await runner.together(calls, run)
        reply = calls[0].batch.encoded or reply
    return reply


def _settled(service: Service, endpoint: Endpoint, event: Event | None) -> tuple[int, bytes | None]:
    """A message that is no call."""
    if isinstance(event, Violation) and event.kind == "unknown_answer":
        error = ProtocolError("invalid_request", "a response was received, but nothing was asked")
        event = endpoint.refuse(error)
    if isinstance(event, Reply):
        return event.status, event.data
    if isinstance(event, Notice):
        service.receive_notification(event)
    return ACCEPTED, None
