"""The driver for a single request: one message in, its response out, no lasting connection.

`Server.handle` and stateless HTTP use it. Nothing is stored between messages, so the server cannot send
requests to the client. Each message gets a new `Endpoint`, so the same rules apply as on any connection,
including batches. The call runs in the caller's task; only the calls of a batch get their own tasks.
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
from ..core.endpoint import STREAMS, Endpoint
from ..core.principal import Principal
from ..errors import DovetailError, ProtocolError
from ..wire.frames import Frame, too_large
from ..wire.headers import RoutingHeaders
from .run import Outcome, Runner, status_of

ACCEPTED = 202
"""HTTP status for a message without a response."""


class ResponseWriter(Protocol):
    """Receives the messages that are sent before the response.

    The first one usually turns a plain response into an event stream, so a writer is not used until the
    service sends something. All notifications must reach the peer before the response.
    """

    def notify(self, message: bytes) -> None:
        """Send one encoded notification. Never blocks, never raises; ignored after a disconnect."""
        ...

    async def drain(self) -> None:
        """Wait until the peer has read enough of the notifications (backpressure)."""
        ...

    @property
    def started(self) -> bool:
        """Whether a notification was sent. The response will then be an event of a stream."""
        ...


class NullWriter:
    """A writer that discards notifications."""

    def notify(self, message: bytes) -> None: ...

    async def drain(self) -> None: ...

    @property
    def started(self) -> bool:
        return False


NULL_WRITER = NullWriter()


class ExchangeChannel(PlainChannel, Struct, eq=False):
    """What the service may do during a call whose client cannot be reached."""

    endpoint: Endpoint
    call: Call
    writer: ResponseWriter

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
    writer: ResponseWriter = NULL_WRITER,
    runner: Runner | None = None,
    begun: list[Call] | None = None,
    failed: Callable[[DovetailError], None] | None = None,
) -> tuple[int, bytes | None]:
    """Serve one message or batch. Returns the HTTP status and the response, if there is one.

    ``session`` is the session of a legacy message; without one the error says to initialize. Write what
    ``writer`` received, then the response. ``runner`` is shared by the app and knows when it shuts down.
    ``begun`` is called with the calls before they run, ``failed`` with the error of a single call. No content
    of a message raises an exception. `asyncio.CancelledError` means that the caller was cancelled.
    """
    limits = service.limits
    limits = (
        limits if limits.max_event_bytes is None else limits.on_events()
    )  # for messages sent before the response
    endpoint = Endpoint(service.admission, limits, principal=principal, scope=scope, session=session)
    runner = runner or Runner(service, service.limits, running=service.admission.shared.requests)
    event = _receive(endpoint, message, headers, service.limits.max_message_bytes)
    calls = [] if begun is None else begun
    if isinstance(event, list):
        reply = await _batch(service, endpoint, event, writer, runner, calls)
        return ACCEPTED if reply is None else 200, reply
    if not isinstance(event, Call):
        return _respond_without_call(service, endpoint, event)
    if event.method in STREAMS and writer is NULL_WRITER:
        # It would never end, and no client could receive its notifications.
        error = ProtocolError(
            "subscription_failed", f"{event.method} needs a stream; this transport has none"
        )
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
    writer: ResponseWriter,
    runner: Runner,
    calls: list[Call],
) -> bytes | None:
    """Run the calls of a batch concurrently. The last one to end completes the response."""
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
        await runner.run_batch(calls, run)
        reply = calls[0].batch.encoded or reply
    return reply


def _respond_without_call(
    service: Service, endpoint: Endpoint, event: Event | None
) -> tuple[int, bytes | None]:
    """Return status and response for a message that is not a call."""
    if isinstance(event, Violation) and event.kind == "unknown_answer":
        error = ProtocolError("invalid_request", "received a response, but no request is pending")
        event = endpoint.refuse(error)
    if isinstance(event, Reply):
        return event.status, event.data
    if isinstance(event, Notice):
        service.receive_notification(event)
    return ACCEPTED, None
