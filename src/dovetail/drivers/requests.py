"""Our own requests: one table for everybody who asks and waits, a server its client or a client its server.

A request ends exactly once: with its answer, with the limit that ran out, with the loss of the connection, or because
its caller stopped waiting. Unless it is the peer who told us, the peer is told, and a late answer is dropped by the
endpoint; ``late`` hears of one that may name a task. One timer watches all limits; it is set for the earliest and costs
nothing per request.

Give a `Requests` to each connection and

- call `request` to ask: it is written with ``write`` (each request may bring its own: an event stream of HTTP);
- pass on what comes in: an `Answer` to `answered` or, when nobody waits for it, `came_late`, progress to `progressed`,
  a sign of life to `touch`;
- call `fail` when the connection is over: whoever waits gets a `SessionLost`, and so does whoever asks later.

A link on which each request has an exchange of its own (HTTP, on the client's side) is set as ``exchange``. It runs in
the task of the caller, no task and no queue in between, and whoever stops waiting closes the exchange with it.

While we answer a question of the peer, idle limits stand still, for the silence is ours: count `answering` up and down.
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
"""Told that the peer has let go of the stream of a request, and wants to be asked for the rest of it later."""
MAKE_TASKS: Final = frozenset({"tools/call", "tasks/create"})
UNLIMITED: Final = Timeouts(connect=None, idle=None, total=None)


class SendOptions(TypedDict, total=False):
    """The options of one request."""

    meta: Mapping[str, Any] | None
    """Merged into its ``_meta``."""
    on_progress: OnProgress | None
    pass_progress: Callable[[ProgressNotificationParams], None] | None
    """The same, told all that the peer says of it: for whoever passes it on."""
    quiet: bool
    """Ask for no progress that nobody listens to."""
    headers: Mapping[str, str] | None
    """For its exchange, where there are headers."""
    codec: Codec | None
    """For requests before anything is negotiated."""
    raw: bool
    """Return the result as it came."""
    released: Released | None
    came: Raw
    """The params of the request that this one passes on; see `Codec.encode_request`."""
    row: Method | None
    """What is known of a method that no revision has."""
    write: Write
    """Where it is written, and that it was given up; by default where the connection writes."""


class Outgoing(Struct, eq=False):
    """A request of ours that has no answer yet; what an exchange is given to send."""

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
    """What the peer's progress for it is called."""
    idle: float = inf
    idle_at: float = inf
    total_at: float = inf
    task: asyncio.Task[Any] | None = None
    """The task to interrupt: set while the caller itself runs the exchange."""
    error: DovetailError | None = None
    """Why it was interrupted."""
    status: int = 0
    """The HTTP status of the answer, where there is one; the exchange sets it."""
    released: Released | None = None
    over: Callable[[BaseException | None], None] | None = None
    """Wants to hear how it ended."""
    asked: bool = False
    """The peer asked something about it."""
    failed: Exception | None = None
    """Why that was not answered."""


Exchange = Callable[[Outgoing], Awaitable[None]]
"""Send the request and pass on all that comes back, until it is answered. Raises `TransportError`: it will not be."""


class Requests:
    """The requests one connection has out; the module says how to use it."""

    def __init__(self, endpoint: Endpoint, write: Write, clock: Clock | None = None) -> None:
        self.waiting: dict[RequestId, Outgoing] = {}
        self.exchange: Exchange | None = None
        """How a request is sent where each has an answer of its own; in place of ``write``."""
        self.answering = 0
        """How many questions of the peer we are answering."""
        self.last_status = 0
        """The HTTP status of the last exchange; meaningful while one request is out at a time."""
        self.asked, self.failed = False, cast("Exception | None", None)
        """What `Outgoing` says of the one that ended last."""
        self.ended: TransportError | None = None
        """Why nothing can be asked any more."""
        self.late: Callable[[str, Raw], None] | None = None
        """Told the method and the result of a request that may make a task, when nobody waits for it any more."""
        self._late: dict[RequestId, str] = {}
        """Requests that were given up and may yet be answered with a task, and their methods."""
        self.hint: str | None = None
        """What an answer that does not come may be due to, for messages."""
        self._endpoint = endpoint
        self._write = write
        self._clock: Clock = LoopClock() if clock is None else clock
        self._loop = asyncio.get_running_loop()
        self._most = endpoint.limits.max_outgoing_requests
        self._queue: deque[asyncio.Future[None]] = deque()
        """Requests that wait for others to end, because as many as allowed are under way."""
        self._timer: Timer | None = None
        self._timer_at = inf

    async def request(
        self,
        method: str,
        params: Struct | Raw | None = None,
        limits: Timeouts = UNLIMITED,
        **options: Unpack[SendOptions],
    ) -> Any:
        """Ask the peer and return its decoded result.

        Raises:
            ProtocolError: the peer answered with an error, or with something unusable.
            RequestTimeout: a limit ran out; the peer was told to stop.
            SessionLost: the connection was gone, or went away under the request.
            TransportError: the exchange of this request failed.
        """
        if len(self.waiting) >= self._most:
            await self._room(method, limits)
        codec = options.get("codec") or self._endpoint.codec
        sent = self._begin(method, params, limits, codec, options)
        answer = error = None
        # All in one frame: a coroutine more between caller and socket is two calls more for each request.
        try:
            if self.exchange is None:
                sent.write(sent.data)
            else:
                sent.task = asyncio.current_task(self._loop)
                await self.exchange(sent)
                if not sent.future.done():
                    raise TransportError("the server ended the exchange without an answer", cause="eof")
            answer = await sent.future
            if answer.error is not None:
                raise answer.error
            result: Any = answer.result
        except BaseException as reason:
            if sent.over is not None:
                sent.over = sent.over(reason)
            if (error := self._give_up(sent, reason)) is None:
                raise
            raise error from None
        finally:
            self.last_status, self.asked, self.failed = sent.status, sent.asked, sent.failed
            if sent.over is not None:
                sent.over(None)
            del sent, answer, error  # they hold the error, which holds this frame: a circle for the collector
            if self._queue:
                self._next_turn()
        row = METHODS.get(method) or options.get("row")
        if row is None or options.get("raw"):
            return result
        return codec.decode_result(row, result)

    def _begin(
        self, method: str, params: Struct | Raw | None, limits: Timeouts, codec: Codec, options: SendOptions
    ) -> Outgoing:
        if self.ended is not None:
            raise self._lost(self.ended, sent=False)
        get = options.get
        meta, on_progress = get("meta"), get("on_progress")
        carrier = self._endpoint.admission.meta_provider
        if carrier is not None:
            meta = {**carrier.request_meta(method), **(meta or {})} or None
        # Progress extends the idle limit, whether or not anybody else wants to hear of it.
        passed = get("pass_progress")
        progress = (
            on_progress is not None or passed is not None or (limits.idle is not None and not get("quiet"))
        )
        id, data = self._endpoint.send_request(
            method, params, meta=meta, progress=progress, codec=codec, came=get("came")
        )
        write, future = get("write") or self._write, self._loop.create_future()
        sent = Outgoing(id, method, params, data, get("headers"), write, future, on_progress)
        sent.released, sent.pass_progress = get("released"), passed
        if carrier is not None:
            sent.over = carrier.sent(id)
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

    async def _room(self, method: str, limits: Timeouts) -> None:
        """Wait until a request of ours has ended; as many as `Limits.max_outgoing_requests` are under way."""
        try:
            async with asyncio.timeout(limits.total):
                while len(self.waiting) >= self._most and self.ended is None:
                    turn: asyncio.Future[None] = self._loop.create_future()
                    self._queue.append(turn)
                    await turn
        except TimeoutError:
            raise RequestTimeout(f"{method}: too many requests were under way", limit="total") from None

    def _next_turn(self) -> None:
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    # --- how it ends ------------------------------------------------------------------------------------------

    def answered(self, answer: PeerResponse) -> None:
        sent = self.waiting.pop(answer.id, None)
        if sent is not None and not sent.future.done():
            sent.future.set_result(answer)
        elif sent is not None:  # its caller was cancelled in this very turn of the loop
            self.came_late(answer.id, answer.result, sent.method)

    def came_late(self, id: RequestId, result: Raw | UnsetType, method: str = "") -> None:
        """Take an answer that nobody waits for, to a request that was given up before or, ``method``, just now."""
        method = self._late.pop(id, method)
        if self.late is not None and self.ended is None and result is not UNSET and method in MAKE_TASKS:
            self.late(method, result)

    def refuse(self, id: RequestId, error: ProtocolError | Refusal) -> None:
        """The peer answered the exchange of this request with an error that does not name it."""
        sent = self.waiting.get(id)
        if sent is not None:
            self._endpoint.send_cancel(id)
            self.answered(PeerResponse(id=id, method=sent.method, error=error))

    def lose(self, id: RequestId, reason: TransportError) -> None:
        """The answer to this request was lost on its way, the connection was not."""
        sent = self.waiting.pop(id, None)
        if sent is not None:
            self._endpoint.send_cancel(id)
            _interrupt(sent, self._lost(reason, sent=True))

    def fail(self, reason: TransportError | None) -> None:
        """The connection is over: nobody will be answered any more."""
        if self.ended is None:
            self.ended = reason or TransportError("the peer closed the connection", cause="eof")
        self._write = _nowhere  # it leads back to whoever has us
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_at = None, inf
        waiting, self.waiting = self.waiting, {}
        for sent in waiting.values():
            _interrupt(sent, self._lost(self.ended, sent=True))
        while self._queue:
            self._next_turn()

    def _lost(self, reason: TransportError, *, sent: bool) -> SessionLost:
        lost = SessionLost(reason.message, cause=reason.cause, maybe_executed=sent)
        lost.stderr = reason.stderr
        return lost

    def _give_up(self, sent: Outgoing, reason: BaseException) -> DovetailError | None:
        """The caller stops waiting: tell the peer, unless it is what told us. Returns the error to raise instead."""
        task, sent.task = sent.task, None
        error, sent.error = sent.error, None
        if self.waiting.pop(sent.id, None) is not None:
            self._withdraw(sent, "the caller stopped waiting", quiet=isinstance(reason, TransportError))
        if not isinstance(reason, asyncio.CancelledError):
            return None
        done = sent.future.done() and not sent.future.cancelled()
        if done and sent.future.exception() is None:  # it came in the turn before
            self.came_late(sent.id, sent.future.result().result, sent.method)
        if error is None:
            return None
        # It was us who interrupted, as `asyncio.timeout` does; unless somebody else cancelled the task as well.
        return None if task is not None and task.uncancel() > 0 else error

    def _withdraw(self, sent: Outgoing, reason: str, *, quiet: bool = False) -> None:
        notice = self._endpoint.send_cancel(sent.id, reason)
        if self.late is not None and sent.method in MAKE_TASKS:
            self._late[sent.id] = sent.method
            if len(self._late) > self._endpoint.limits.max_tombstones:
                del self._late[next(iter(self._late))]
        # Streamable HTTP 2026-07-28, Cancellation: closing the response is the cancellation.
        quiet = quiet or (self.exchange is not None and self._endpoint.codec.revision.modern)
        if notice is not None and not quiet:
            sent.write(notice)

    # --- limits -----------------------------------------------------------------------------------------------

    def progressed(self, params: ProgressNotificationParams) -> bool:
        """Take progress; whether it was for one of ours."""
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
            except Exception:
                log.exception("on_progress of %s failed", sent.method)
        return True

    def touch(self, sent: Outgoing) -> None:
        """Something arrived for this request: its idle limit starts anew."""
        if sent.idle is not inf:
            sent.idle_at = self._clock.time() + sent.idle

    def touch_all(self) -> None:
        """The silence was ours: every idle limit starts anew."""
        for sent in self.waiting.values():
            self.touch(sent)

    def _set_timer(self, when: float, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._clock.call_later(max(0.0, when - now), self._sweep)

    def _sweep(self) -> None:
        now = self._clock.time()
        self._timer, self._timer_at = None, inf
        if self.answering:
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

    def _expire(self, sent: Outgoing, limit: str) -> None:
        del self.waiting[sent.id]
        self._withdraw(sent, f"timeout ({limit})")
        what = "nothing came from the peer" if limit == "idle" else "no answer came"
        text = f"{sent.method}: {what} within the {limit} limit"
        if self.hint is not None:
            text += f" ({self.hint})"
        _interrupt(sent, RequestTimeout(text, limit=limit))


def _nowhere(data: bytes) -> None:
    """What is written after the end."""


def _interrupt(sent: Outgoing, error: DovetailError) -> None:
    """End a request from outside: by its future, or by interrupting the task that runs the exchange."""
    if sent.task is not None:
        sent.error = error
        if sent.task is not asyncio.current_task():  # its own exchange found out, and raises by itself
            sent.task.cancel()
    elif not sent.future.done():
        sent.future.set_exception(error)
