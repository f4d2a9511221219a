"""`Conversation`: one live connection of a client, with its requests, responses and server requests.

It connects the `Endpoint` (protocol rules), a link (bytes), the `Requests` that wait for a response, and a
`Runner` for the requests of a legacy server. Streams have one reader for all, so a caller waits on a future.
HTTP has one exchange per request, which runs in the caller's task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol

from msgspec import Raw, Struct

from ..core.channel import (
    Call,
    Cancel,
    Event,
    Link,
    Notice,
    PeerResponse,
    PlainChannel,
    Reply,
    Responder,
    Violation,
)
from ..core.endpoint import CANCELLED, LISTEN, PROGRESS, Endpoint
from ..drivers.clock import Clock
from ..drivers.requests import Exchange, OutgoingRequest, Requests
from ..drivers.run import Runner
from ..errors import TransportError
from ..wire.frames import RequestId

TURN_BYTES: Final = 16 << 10
"""Bytes of a stream that are parsed in one iteration of the event loop."""
TURN_MESSAGES: Final = 500
"""Messages of a stream that are handled in one iteration of the event loop."""


log = logging.getLogger("dovetail.client")

OnMessage = Callable[[str, bytes], None]
Attend = Callable[[Callable[[], None]], Awaitable[None]]
"""Called when the client starts to receive notifications: earlier ones were not received."""

NORMAL = frozenset({"late_answer", "unknown_answer", "progress_token_expired"})
"""Violations that also occur with correct servers, after timeouts and cancellations."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Peer(Responder, Protocol):
    """The parts of the client that a conversation uses: answers to server requests, and notification
    handlers.
    """

    def receive_notification(self, notice: Notice) -> None: ...


class Conversation(PlainChannel):
    """The client's side of one connection: the `Receiver` of its link, and the `Channel` of callbacks."""

    def __init__(
        self, endpoint: Endpoint, peer: Peer, clock: Clock, on_message: OnMessage | None = None
    ) -> None:
        self.endpoint = endpoint
        self.link: Link | None = None
        self.attend: Attend | None = None
        """Receives messages outside of requests until the connection ends, if the transport needs a task for
        that.
        """
        self.gone: asyncio.Future[TransportError] = asyncio.get_running_loop().create_future()
        """Done when the connection has ended. The result is the reason."""
        self.on_gone: Callable[[TransportError], None] | None = None
        """Called with the reason before any call fails with it."""
        self.requests = Requests(endpoint, self._write, clock)
        self.request = self.requests.request
        self.deadline: asyncio.Timeout | None = None
        """The deadline for the connection to be ready; None once it is."""
        self._peer = peer
        self._runner = Runner(peer, endpoint.limits)
        self._on_message = on_message
        """Called with the sender and the bytes of every message."""
        self._answering: dict[Call, asyncio.Task[None]] = {}
        self.asked_about: dict[Call, OutgoingRequest | None] = {}
        """Running server requests, and the client request that each belongs to, if known."""
        self._oversized: TransportError | None = None
        self._frames: list[bytes] = []

    @contextmanager
    def unhurried(self) -> Generator[None]:
        """Entered while a user logs in: idle limits do not apply to that time."""
        deadline, when = self.deadline, None if self.deadline is None else self.deadline.when()
        loop = self.gone.get_loop()
        begun = loop.time()
        if deadline is not None:
            deadline.reschedule(None)
        self.requests.serving += 1
        try:
            yield
        finally:
            self.requests.serving -= 1
            self.requests.touch_all()
            if deadline is not None and when is not None:
                deadline.reschedule(when + loop.time() - begun)

    # --- sending --------------------------------------------------------------------------------------------------

    def notify(self, method: str, params: Struct | None = None) -> None:
        """Send a notification. Do nothing if the connection has ended."""
        if not self.gone.done():
            data = self.endpoint.send_notification(method, params)
            if data is not None:
                self._write(data)

    async def drain(self) -> None:
        """Wait until sent data has left the buffer (backpressure)."""
        self._flush()
        if self.link is not None:
            await self.link.drain()

    def _write(self, data: bytes) -> None:
        """Write a message: a single one at once, those of concurrent requests together."""
        if self._frames:
            self._frames.append(data)
        elif self.link is None:
            return
        elif self._on_message is not None:
            self._on_message("client", data)
            self.link.send(data)
        elif len(self.requests.waiting) > 1 and self.requests.exchange is None:
            self._frames.append(data)
            self.gone.get_loop().call_soon(self._flush)
        else:
            self.link.send(data)

    def _flush(self) -> None:
        frames, self._frames = self._frames, []
        if frames and self.link is not None:
            self.link.send_many(frames)

    # --- Receiver -------------------------------------------------------------------------------------------------

    def connected(self, link: Link, exchange: Exchange | None = None, attend: Attend | None = None) -> None:
        """Handle a message. HTTP has an ``exchange`` per request, and ``attend`` for messages outside of
        requests.
        """
        self.link = link
        self.attend = attend
        self.requests.exchange = exchange
        if exchange is not None and self._on_message is not None:
            self.requests.exchange = _reporting(exchange, self._on_message)

    def received(self, message: bytes) -> None:
        if self._on_message is not None:
            self._on_message("server", message)
        event = self.endpoint.receive(message)
        if type(event) is PeerResponse:  # the most frequent case
            self.requests.answered(event)
        elif event is not None:
            if message.startswith(_BYTE_ORDER_MARK):  # some shells print a byte order mark first
                self.received(message.removeprefix(_BYTE_ORDER_MARK))
                return
            for each in event if isinstance(event, list) else (event,):
                if type(each) is Reply and b'"method"' not in message:
                    self._drop_unreadable()
                else:
                    self._handle(each)

    @property
    def asked(self) -> list[RequestId]:
        """The number of requests without a response, except listen requests."""
        return [sent.id for sent in self.requests.waiting.values() if sent.method != LISTEN]

    def oversized(self, limit: int) -> None:
        """Handle a message that was too large and was skipped. It can be assigned only to a single pending
        request.
        """
        text = (
            f"the server sent a message of more than {limit} bytes; Limits(max_message_bytes=…) allows more"
        )
        self._oversized = TransportError(text, cause="protocol")
        self.requests.hint = text
        if len(asked := self.asked) == 1:
            self.requests.lose(asked[0], self._oversized)

    def ended(self) -> None:
        """Handle the end of input: a server that sends nothing more cannot respond.

        For a child process the link waits a moment for its exit status.
        """
        if self.link is not None and self.link.process is None:
            self.link.close()

    def lost(self, error: TransportError | None) -> None:
        if error is None or error.cause == "protocol":
            error = self._oversized or error
        self._end(error or TransportError("the server closed the connection", cause="eof"))

    # --- received messages
    # --------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        match event:
            case PeerResponse():
                self.requests.answered(event)
            case Call():
                self.asked_about[event] = self._asked_about()
                task = self._answering[event] = asyncio.get_running_loop().create_task(self._answer(event))
                for known in (self._answering, self.asked_about):  # also if it ends before it has started
                    task.add_done_callback(partial(known.pop, event))
            case Notice():
                self._receive_notification(event)
            case Cancel():
                task = self._answering.get(event.call)
                if task is not None:
                    task.cancel()
            case Reply():
                # Modern clients never send responses.
                if not self.endpoint.codec.revision.modern:
                    self._write(event.data)
            case Violation():
                self._dropped(event.kind, event.detail)
                if event.late is not None:
                    self.requests.answered_late(*event.late)

    def _drop_unreadable(self) -> None:
        """Count a malformed response. It is not answered: the server could not assign the answer."""
        counts = self.endpoint.violations
        counts["unreadable"] = counts.get("unreadable", 0) + 1
        self.endpoint.admission.violated("unreadable", "a malformed answer")
        self._dropped("unreadable", "a malformed answer")

    def _dropped(self, kind: str, detail: str) -> None:
        """Log the first dropped message of each kind, so that a server cannot fill the log. Late responses
        are normal.
        """
        first = self.endpoint.violations.get(kind) == 1 and kind not in NORMAL
        level = logging.WARNING if first else logging.DEBUG
        log.log(level, "dropped a message of the server (%s): %s", kind, detail)

    def _report_dropped(self) -> None:
        """Log the number of dropped messages of each kind."""
        for kind, count in self.endpoint.violations.items():
            if count > 1 and kind not in NORMAL:
                log.warning("messages of the server dropped kind=%s count=%d", kind, count)

    def _receive_notification(self, notice: Notice) -> None:
        if notice.method == PROGRESS:
            self.requests.progressed(notice.params)
        elif notice.method == CANCELLED:
            # A result of a listen request: the server ended the stream.
            self.endpoint.send_cancel(notice.params.request_id)
            self.requests.answered(
                PeerResponse(id=notice.params.request_id, method=LISTEN, result=Raw(b"{}"))
            )
        else:
            self._peer.receive_notification(notice)

    def _asked_about(self) -> OutgoingRequest | None:
        """Return the request whose exchange received the current message, or the only pending one except
        pings.
        """
        waiting = [sent for sent in self.requests.waiting.values() if sent.method not in (LISTEN, "ping")]
        exchange = asyncio.current_task()
        found = [sent for sent in waiting if sent.task is not None and sent.task is exchange] or waiting
        for sent in found:
            sent.asked = True
        return found[0] if len(found) == 1 else None

    async def _answer(self, call: Call) -> None:
        """Handle one server request. Idle limits pause meanwhile."""
        self.requests.serving += 1
        try:
            data, _ = await self._runner.run(call, self, self.endpoint)
            if data is not None:
                self._write(data)
        finally:
            self.requests.serving -= 1
            self.requests.touch_all()

    # --- end
    # --------------------------------------------------------------------------------------------------------------

    def close(self, error: TransportError | None = None) -> None:
        """End the connection. Pending requests fail with ``error``."""
        self._end(error or TransportError("the client was closed", cause="closed"))
        if self.link is not None:
            self._flush()
            self.link.close()

    async def answered(self) -> None:
        """Wait until no server request is running."""
        while self._answering:
            tasks = list(self._answering.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0)  # since Python 3.12, gather does not yield if everything is done

    def _end(self, reason: TransportError) -> None:
        if self.gone.done():
            return
        self.gone.set_result(reason)
        told, self.on_gone = self.on_gone, None
        if told is not None:
            told(reason)
        self._report_dropped()
        self.endpoint.close()
        self.requests.fail(reason)
        for task in self._answering.values():
            task.cancel()


def _reporting(exchange: Exchange, on_message: OnMessage) -> Exchange:
    async def tapped(outgoing: OutgoingRequest) -> None:
        on_message("client", outgoing.data)
        await exchange(outgoing)

    return tapped
