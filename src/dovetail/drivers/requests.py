"""Outgoing requests of one connection: responses, timeouts, progress and cancellation.

A request ends exactly once: with its response, a timeout, a lost connection, or the cancellation of its
caller. Unless the peer ended it, the peer is notified. The endpoint drops a late response; ``on_late_task``
is called with one that may contain a task. One timer serves all timeouts. It is set to the earliest one and
costs nothing per request.

Create one `Requests` per connection and

- call `request`: it writes the request with ``write`` (a request may have its own ``write``: an HTTP event stream);
- pass on received messages: a `PeerResponse` to `answered` or, if no request waits for it, `answered_late`, progress
  to `progressed`, other activity to `touch`;
- call `fail` when the connection has ended: pending and later requests raise `SessionLost`.

A link with a separate exchange per request (an HTTP client) is set as ``exchange``. It runs in the caller's
task, without other tasks or queues. Cancelling the caller closes the exchange.

While the client or server handles a request of the peer, idle timeouts are paused, because the peer is
waiting: increment and decrement `serving`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from math import inf
from typing import Any, Final, TypedDict, Unpack, cast

from msgspec import UNSET, Raw, Struct, UnsetType

from ..core.channel import PeerResponse
from ..core.endpoint import Endpoint
from ..errors import DovetailError, ProtocolError, Refusal, RequestTimeout, SessionLost, TransportError
from ..model import ProgressNotificationParams
from ..model.meta import PROGRESS_TOKEN
from ..settings import Timeouts
from ..wire.codec import Codec
from ..wire.frames import RequestId
from ..wire.methods import METHODS, Method
from .clock import Clock, LoopClock, Timer

log = logging.getLogger("dovetail")

Write = Callable[[bytes], None]
OnProgress = Callable[[float, float | None, str | None], Any]
Released = Callable[[], Awaitable[None]]
"""Called when the peer has released the stream of a request, so that the rest must be fetched later."""
MAKE_TASKS: Final = frozenset({"tools/call", "tasks/create"})
UNLIMITED: Final = Timeouts(connect=None, idle=None, total=None)


class SendOptions(TypedDict, total=False):
    """The options of one request."""

    meta: Mapping[str, Any] | None
    """Merged into its ``_meta``."""
    on_progress: OnProgress | None
    pass_progress: Callable[[ProgressNotificationParams], None] | None
    """Like ``on_progress``, with the complete params: for forwarding."""
    quiet: bool
    """Send a progress token only if there is a progress callback."""
    headers: Mapping[str, str] | None
    """HTTP headers for its exchange."""
    codec: Codec | None
    """The codec for requests before negotiation."""
    raw: bool
    """Return the result undecoded."""
    released: Released | None
    came: Raw
    """The params of the request that this one forwards; see `Codec.encode_request`."""
    row: Method | None
    """The definition of a custom method."""
    write: Write
    """Writes the request and its cancellation; by default the ``write`` of the connection."""


class OutgoingRequest(Struct, eq=False):
    """A request without a response yet; an exchange sends it."""

    id: RequestId
    method: str
    params: Any
    data: bytes
    headers: Mapping[str, str] | None
    write: Write
    future: asyncio.Future[PeerResponse]
    on_progress: OnProgress | None = None
    pass_progress: Callable[[ProgressNotificationParams], None] | None = None
    token: RequestId | None = None
    """The progress token."""
    idle: float = inf
    idle_at: float = inf
    total_at: float = inf
    task: asyncio.Task[Any] | None = None
    """The task to interrupt, set while the caller runs the exchange."""
    error: DovetailError | None = None
    """Why it was interrupted."""
    status: int = 0
    """The HTTP status of the response; the exchange sets it."""
    released: Released | None = None
    on_end: Callable[[BaseException | None], None] | None = None
    """Called with the outcome."""
    asked: bool = False
    """The peer sent a request that belongs to this one."""
    failed: Exception | None = None
    """Why that request failed."""


Exchange = Callable[[OutgoingRequest], Awaitable[None]]
"""Sends a request and passes on all messages until its response.

Raises `TransportError` if there will be none.
"""


class Requests:
    """The pending requests of one connection; see the module."""

    def __init__(self, endpoint: Endpoint, write: Write, clock: Clock | None = None) -> None:
        self.waiting: dict[RequestId, OutgoingRequest] = {}
        self.exchange: Exchange | None = None
        """Sends a request whose response has its own exchange; used instead of ``write``."""
        self.serving = 0
        """Number of requests of the peer that are being served."""
        self.last_status = 0
        """The HTTP status of the last exchange. Valid only without concurrent requests."""
        self.asked, self.failed = False, cast("Exception | None", None)
        """The values of `OutgoingRequest` of the request that ended last."""
        self.closed_by: TransportError | None = None
        """Why no request can be sent any more."""
        self.on_late_task: Callable[[str, Raw], None] | None = None
        """Called with the method and the result of a late response that may contain a task."""
        self._late: dict[RequestId, str] = {}
        """Requests that were given up and may still return a task, with their methods."""
        self.hint: str | None = None
        """A possible cause of a missing response, for error messages."""
        self._endpoint = endpoint
        self._write = write
        self._clock: Clock = LoopClock() if clock is None else clock
        self._loop = asyncio.get_running_loop()
        self._most = endpoint.limits.max_outgoing_requests
        self._queue: deque[asyncio.Future[None]] = deque()
        """Requests that wait for a slot, because the maximum number is pending."""
        self._timer: Timer | None = None
        self._timer_at = inf

    async def request(
        self,
        method: str,
        params: Struct | Raw | None = None,
        limits: Timeouts = UNLIMITED,
        **options: Unpack[SendOptions],
    ) -> Any:
        """Send a request to the peer and return its decoded result.

        Raises:
            ProtocolError: the peer responded with an error, or with an invalid result.
            RequestTimeout: a timeout expired; the peer was sent a cancellation.
            SessionLost: the connection was closed, or was lost during the request.
            TransportError: the exchange of this request failed.
        """
        if len(self.waiting) >= self._most:
            await self._wait_for_slot(method, limits)
        codec = options.get("codec") or self._endpoint.codec
        sent = self._begin(method, params, limits, codec, options)
        answer = error = None
        # Inlined for speed: an additional coroutine would cost two calls per request.
        try:
            if self.exchange is None:
                sent.write(sent.data)
            else:
                sent.task = asyncio.current_task(self._loop)
                await self.exchange(sent)
                if not sent.future.done():
                    raise TransportError(
                        "the server closed the response stream before it sent a response", cause="eof"
                    )
            answer = await sent.future
            if answer.error is not None:
                raise answer.error
            result: Any = answer.result
        except BaseException as reason:
            if sent.on_end is not None:
                sent.on_end = sent.on_end(reason)
            if (error := self._give_up(sent, reason)) is None:
                raise
            raise error from None
        finally:
            self.last_status, self.asked, self.failed = sent.status, sent.asked, sent.failed
            if sent.on_end is not None:
                sent.on_end(None)
            del sent, answer, error  # they refer to the error, which refers to this frame: a reference cycle
            if self._queue:
                self._next_turn()
        row = METHODS.get(method) or options.get("row")
        if row is None or options.get("raw"):
            return result
        return codec.decode_result(row, result)

    def _begin(
        self, method: str, params: Struct | Raw | None, limits: Timeouts, codec: Codec, options: SendOptions
    ) -> OutgoingRequest:
        if self.closed_by is not None:
            raise self._lost(self.closed_by, sent=False)
        get = options.get
        meta, on_progress = get("meta"), get("on_progress")
        carrier = self._endpoint.admission.meta_provider
        if carrier is not None:
            meta = {**carrier.request_meta(method), **(meta or {})} or None
        # Progress extends the idle timeout, even without a progress callback.
        passed = get("pass_progress")
        progress = (
            on_progress is not None or passed is not None or (limits.idle is not None and not get("quiet"))
        )
        id, data = self._endpoint.send_request(
            method, params, meta=meta, progress=progress, codec=codec, came=get("came")
        )
        write, future = get("write") or self._write, self._loop.create_future()
        sent = OutgoingRequest(id, method, params, data, get("headers"), write, future, on_progress)
        sent.released, sent.pass_progress = get("released"), passed
        if carrier is not None:
            sent.on_end = carrier.sent(id)
        if progress:
            sent.token = id if meta is None else meta.get(PROGRESS_TOKEN, id)
        self.waiting[id] = sent
        if limits is not UNLIMITED:
            now = self._clock.time()
            if limits.total is not None:
                sent.total_at = now + limits.total
            if limits.idle is not None:
                sent.idle = limits.idle
                sent.idle_at = now + limits.idle
            if sent.total_at < self._timer_at or sent.idle_at < self._timer_at:
                self._set_timer(min(sent.total_at, sent.idle_at), now)
        return sent

    async def _wait_for_slot(self, method: str, limits: Timeouts) -> None:
        """Wait for a slot; at most `Limits.max_outgoing_requests` requests are pending."""
        try:
            async with asyncio.timeout(limits.total):
                while len(self.waiting) >= self._most and self.closed_by is None:
                    turn: asyncio.Future[None] = self._loop.create_future()
                    self._queue.append(turn)
                    await turn
        except TimeoutError:
            raise RequestTimeout(f"{method}: no request slot became free", limit="total") from None

    def _next_turn(self) -> None:
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    # --- outcomes -------------------------------------------------------------------------------------------

    def answered(self, answer: PeerResponse) -> None:
        sent = self.waiting.pop(answer.id, None)
        if sent is not None and not sent.future.done():
            sent.future.set_result(answer)
        elif sent is not None:  # its caller was cancelled in the same loop iteration
            self.answered_late(answer.id, answer.result, sent.method)

    def answered_late(self, id: RequestId, result: Raw | UnsetType, method: str = "") -> None:
        """Handle a response to a request that was given up, earlier or (``method``) just now."""
        method = self._late.pop(id, method)
        if (
            self.on_late_task is not None
            and self.closed_by is None
            and result is not UNSET
            and method in MAKE_TASKS
        ):
            self.on_late_task(method, result)

    def refuse(self, id: RequestId, error: ProtocolError | Refusal) -> None:
        """The peer responded to the exchange of this request with an error that has no id."""
        sent = self.waiting.get(id)
        if sent is not None:
            self._endpoint.send_cancel(id)
            self.answered(PeerResponse(id=id, method=sent.method, error=error))

    def lose(self, id: RequestId, reason: TransportError) -> None:
        """The response to this request was lost, while the connection stays open."""
        sent = self.waiting.pop(id, None)
        if sent is not None:
            self._endpoint.send_cancel(id)
            _interrupt(sent, self._lost(reason, sent=True))

    def fail(self, reason: TransportError | None) -> None:
        """The connection has ended: fail all pending requests."""
        if self.closed_by is None:
            self.closed_by = reason or TransportError("the peer closed the connection", cause="eof")
        self._write = _discard  # it refers to the owner of this object
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_at = None, inf
        waiting, self.waiting = self.waiting, {}
        for sent in waiting.values():
            _interrupt(sent, self._lost(self.closed_by, sent=True))
        while self._queue:
            self._next_turn()

    def _lost(self, reason: TransportError, *, sent: bool) -> SessionLost:
        lost = SessionLost(reason.message, cause=reason.cause, maybe_executed=sent)
        lost.stderr, lost.exit_status = reason.stderr, reason.exit_status
        return lost

    def _give_up(self, sent: OutgoingRequest, reason: BaseException) -> DovetailError | None:
        """The caller stops waiting: notify the peer, unless the peer ended the request.

        Returns the error to raise instead.
        """
        task, sent.task = sent.task, None
        error, sent.error = sent.error, None
        if self.waiting.pop(sent.id, None) is not None:
            self._withdraw(sent, "the caller stopped waiting", quiet=isinstance(reason, TransportError))
        if not isinstance(reason, asyncio.CancelledError):
            return None
        done = sent.future.done() and not sent.future.cancelled()
        if done and sent.future.exception() is None:  # it arrived in the previous loop iteration
            self.answered_late(sent.id, sent.future.result().result, sent.method)
        if error is None:
            return None
        # This object interrupted the task, as `asyncio.timeout` does; unless the task was cancelled from
        # outside as well.
        return None if task is not None and task.uncancel() > 0 else error

    def _withdraw(self, sent: OutgoingRequest, reason: str, *, quiet: bool = False) -> None:
        notice = self._endpoint.send_cancel(sent.id, reason)
        if self.on_late_task is not None and sent.method in MAKE_TASKS:
            self._late[sent.id] = sent.method
            if len(self._late) > self._endpoint.limits.max_tombstones:
                del self._late[next(iter(self._late))]
        # Streamable HTTP 2026-07-28, Cancellation: closing the response is the cancellation.
        quiet = quiet or (self.exchange is not None and self._endpoint.codec.revision.modern)
        if notice is not None and not quiet:
            sent.write(notice)

    # --- timeouts -------------------------------------------------------------------------------------------

    def progressed(self, params: ProgressNotificationParams) -> bool:
        """Handle progress. Returns whether it belongs to a pending request."""
        token = params.progress_token
        sent = self.waiting.get(token)
        if sent is None or sent.token != token:
            sent = next((one for one in self.waiting.values() if one.token == token), None)
            if sent is None:
                return False
        self.touch(sent)
        if sent.pass_progress is not None:
            sent.pass_progress(params)
        if sent.on_progress is not None:
            total = None if params.total is UNSET else params.total
            message = None if params.message is UNSET else params.message
            try:
                sent.on_progress(params.progress, total, message)
            except (KeyboardInterrupt, SystemExit):
                raise  # the application ends
            except BaseException:
                log.exception("on_progress callback failed method=%s", sent.method)
        return True

    def touch(self, sent: OutgoingRequest) -> None:
        """Restart the idle timeout of a request that received data."""
        if sent.idle is not inf:
            sent.idle_at = self._clock.time() + sent.idle

    def touch_all(self) -> None:
        """Restart all idle timeouts: the peer was waiting for this side."""
        for sent in self.waiting.values():
            self.touch(sent)

    def _set_timer(self, when: float, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._clock.call_later(max(0.0, when - now), self._check_timeouts)

    def _check_timeouts(self) -> None:
        now = self._clock.time()
        self._timer, self._timer_at = None, inf
        if self.serving:
            self.touch_all()
        earliest = inf
        for sent in list(self.waiting.values()):
            limit = "total" if sent.total_at <= now else "idle" if sent.idle_at <= now else ""
            if limit:
                self._expire(sent, limit)
            else:
                earliest = min(earliest, sent.total_at, sent.idle_at)
        if earliest < inf:
            self._set_timer(earliest, now)

    def _expire(self, sent: OutgoingRequest, limit: str) -> None:
        del self.waiting[sent.id]
        self._withdraw(sent, f"timeout ({limit})")
        what = "no message received" if limit == "idle" else "no response received"
        text = f"{sent.method}: {what} within the {limit} limit"
        if self.hint is not None:
            text += f" ({self.hint})"
        _interrupt(sent, RequestTimeout(text, limit=limit))


def _discard(data: bytes) -> None:
    """Discards messages after the connection has ended."""


def _interrupt(sent: OutgoingRequest, error: DovetailError) -> None:
    """End a request from outside: through its future, or by interrupting the task that runs the exchange."""
    if sent.task is not None:
        sent.error = error
        if sent.task is not asyncio.current_task():  # its own exchange detected the error and raises it
            sent.task.cancel()
    elif not sent.future.done():
        sent.future.set_exception(error)
