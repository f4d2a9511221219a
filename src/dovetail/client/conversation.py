"""One live connection, seen from the client: requests go out, answers come back, the server's questions are served.

`Conversation` joins three things: the `Endpoint`, which knows what may be said and which answer belongs to which
request; a link, which moves bytes; and the event loop, where callers wait. Streams have one reader for all, so a
caller waits on a future. HTTP has one exchange per request, which runs in the caller's own task: no task and no queue
in between, and whoever stops waiting closes the exchange with it.

Every request ends exactly once: with its answer, with the limit that ran out, with the loss of the connection, or
with the caller's own cancellation. One timer watches all limits; it is set for the earliest and costs nothing per
request. While we answer a question of the server, idle limits stand still: the silence is ours.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from math import inf
from typing import Any, Protocol

from msgspec import UNSET, Raw, Struct

from ..core.channel import Answer, Call, Cancel, Event, Link, Notice, PlainChannel, Reply, Violation
from ..core.endpoint import Endpoint
from ..drivers.clock import Clock, Timer
from ..errors import DovetailError, ProtocolError, Refusal, RequestTimeout, SessionLost, TransportError
from ..settings import Timeouts
from ..wire.frames import RequestId
from ..wire.methods import METHODS
from .answering.answers import call_back
from .calling.waiting import Outgoing, Waiting, fail
from .config import CallOptions

log = logging.getLogger("dovetail.client")

_NORMAL = frozenset({"late_answer", "unknown_answer", "unknown_progress"})
"""What happens after timeouts and cancellations, with the best of servers."""


_NO_OPTIONS: CallOptions = {}
Tap = Callable[[str, bytes], None]
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Peer(Protocol):
    """What a conversation needs of the client it belongs to."""

    async def respond(self, call: Call, channel: Any) -> Struct | Raw: ...

    def take_note(self, notice: Notice) -> None: ...


class Conversation:
    """The client's side of one connection. Also the `Receiver` of its link."""

    def __init__(self, endpoint: Endpoint, peer: Peer, clock: Clock, tap: Tap | None = None) -> None:
        self.endpoint = endpoint
        self.link: Link | None = None
        self.gone: asyncio.Future[TransportError] = asyncio.get_running_loop().create_future()
        """Done when the connection is over; the result says why."""
        self.last_status = 0
        """The HTTP status of the last answer; meaningful while one request is out at a time."""
        self._peer = peer
        self._tap = tap
        self._clock = clock
        self._waiting: dict[RequestId, Waiting] = {}
        self._answering: dict[RequestId, asyncio.Task[None]] = {}
        self._exchange: Callable[[Outgoing], Coroutine[Any, Any, None]] | None = None
        self._timer: Timer | None = None
        self._timer_at = inf
        self._limit: TransportError | None = None
        self._frames: list[bytes] = []
        self._most = endpoint.limits.pending
        self._queue: deque[asyncio.Future[None]] = deque()
        """Requests that wait for others to end, because as many as allowed are under way."""
        self._send_many: Callable[[list[bytes]], None] | None = None

    @property
    def pending(self) -> int:
        """Requests of ours that wait for an answer."""
        return len(self._waiting)

    # --- asking ---------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Struct | Raw | None,
        limits: Timeouts,
        options: CallOptions = _NO_OPTIONS,
    ) -> Any:
        """Send a request and return its decoded result.

        Raises:
            ProtocolError: the server answered with an error, or with something unusable.
            RequestTimeout: a limit ran out; the server was told to stop.
            SessionLost: the connection went away under the request.
        """
        if len(self._waiting) >= self._most:
            await self._room(method, limits)
        if self.gone.done():
            raise self._lost_error(self.gone.result(), sent=False)
        endpoint = self.endpoint
        on_progress, headers = options.get("on_progress"), options.get("headers")
        id, data = endpoint.send_request(
            method, params, meta=options.get("meta"), progress=on_progress is not None
        )
        future: asyncio.Future[Answer] = self.gone.get_loop().create_future()
        waiting = self._waiting[id] = Waiting(method, future, on_progress)
        self._limit_from_now(waiting, limits)
        try:
            if self._exchange is None:
                self._send(data)
                answer = await future
            else:
                if self._tap is not None:
                    self._tap("client", data)
                answer = await self._exchanged(Outgoing(id, method, params, data, headers, waiting))
        except BaseException as reason:
            self._give_up(id, reason)
            # The future holds the error and the error, by its traceback, this frame: a circle for the collector.
            del future, waiting
            raise
        finally:
            if self._queue:
                self._next_turn()
        if answer.error is not None:
            raise answer.error
        row = METHODS.get(method)
        if row is None:
            return answer.result
        return endpoint.codec.decode_result(row, answer.result)  # pyright: ignore[reportArgumentType]

    async def _room(self, method: str, limits: Timeouts) -> None:
        """Wait until a request of ours has ended; as many as `Limits.pending` are under way."""
        try:
            async with asyncio.timeout(limits.total):
                while len(self._waiting) >= self._most and not self.gone.done():
                    turn: asyncio.Future[None] = self.gone.get_loop().create_future()
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

    def _send(self, data: bytes) -> None:
        """Write a request: alone at once, several of one turn of the loop together."""
        frames = self._frames
        if frames:
            frames.append(data)
        elif len(self._waiting) > 1 and self._send_many is not None:
            frames.append(data)
            self.gone.get_loop().call_soon(self._flush)
        else:
            self.write(data)

    def write(self, data: bytes) -> None:
        if self.link is not None:
            if self._tap is not None:
                self._tap("client", data)
            self.link.send(data)

    def _flush(self) -> None:
        frames, self._frames = self._frames, []
        if frames and self._send_many is not None:
            self._send_many(frames)

    def notify(self, method: str, params: Struct | None = None) -> None:
        """Send a notification; silent when the connection is gone."""
        if self.link is not None and not self.gone.done():
            data = self.endpoint.send_notification(method, params)
            if data is not None:
                self._flush()
                self.write(data)

    def refuse(self, id: RequestId, error: ProtocolError | Refusal) -> None:
        """The server answered the exchange of this request with an error that does not name it."""
        waiting = self._waiting.pop(id, None)
        if waiting is not None and not waiting.future.done():
            self.endpoint.send_cancel(id)
            waiting.future.set_result(Answer(id=id, method=waiting.method, error=error))

    async def _exchanged(self, outgoing: Outgoing) -> Answer:
        waiting = outgoing.waiting
        waiting.task = task = asyncio.current_task()
        try:
            await self._exchange(outgoing)  # pyright: ignore[reportOptionalCall]
        except asyncio.CancelledError:
            # It was us who interrupted, as `asyncio.timeout` does; unless somebody else cancelled the task as well.
            error, waiting.error = waiting.error, None
            if error is None or (task is not None and task.uncancel() > 0):
                raise
            try:
                raise error from None
            finally:
                del error  # it holds this frame
        finally:
            waiting.task = None
            self.last_status = waiting.status
        if not waiting.future.done():
            raise TransportError("the server ended the exchange without an answer", cause="eof")
        return waiting.future.result()

    def _give_up(self, id: RequestId, reason: BaseException) -> None:
        """The caller stops waiting: tell the server, unless it is what told us."""
        if self._waiting.pop(id, None) is None:
            return
        notice = self.endpoint.send_cancel(id, "the caller stopped waiting")
        if notice is None or self.link is None or isinstance(reason, TransportError):
            return
        if self._exchange is not None and self.endpoint.codec.revision.modern:
            return  # Streamable HTTP 2026-07-28, Cancellation: closing the response is the cancellation.
        self._flush()
        self.write(notice)

    # --- limits ---------------------------------------------------------------------------------------------------

    def _limit_from_now(self, waiting: Waiting, limits: Timeouts) -> None:
        now = self._clock.time()
        first = inf
        if limits.total is not None:
            first = waiting.total_at = now + limits.total
        if limits.idle is not None:
            waiting.idle = limits.idle
            waiting.idle_at = now + limits.idle
            first = min(first, waiting.idle_at)
        if first < self._timer_at:
            self._set_timer(first, now)

    def touch(self, waiting: Waiting) -> None:
        """Something arrived for this request: its idle limit starts anew."""
        if waiting.idle is not inf:
            waiting.idle_at = self._clock.time() + waiting.idle

    def _set_timer(self, when: float, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._clock.call_later(max(0.0, when - now), self._sweep)

    def _sweep(self) -> None:
        now = self._clock.time()
        self._timer, self._timer_at = None, inf
        earliest = inf
        for id, waiting in list(self._waiting.items()):
            if self._answering:
                self.touch(waiting)
            limit = "total" if waiting.total_at <= now else "idle" if waiting.idle_at <= now else ""
            if limit:
                self._expire(id, waiting, limit)
            else:
                earliest = min(earliest, waiting.total_at, waiting.idle_at)
        if earliest < inf:
            self._set_timer(earliest, now)

    def _expire(self, id: RequestId, waiting: Waiting, limit: str) -> None:
        del self._waiting[id]
        notice = self.endpoint.send_cancel(id, f"timeout ({limit})")
        quiet = self._exchange is not None and self.endpoint.codec.revision.modern
        if notice is not None and self.link is not None and not quiet:
            self.write(notice)
        what = "nothing came from the server" if limit == "idle" else "no answer came"
        text = f"{waiting.method}: {what} within the {limit} limit"
        if self._limit is not None:
            text += f" ({self._limit.message})"
        fail(waiting, RequestTimeout(text, limit=limit))

    # --- Receiver -------------------------------------------------------------------------------------------------

    def connected(self, link: Link) -> None:
        self.link = link
        self._exchange = getattr(link, "exchange", None)
        self._send_many = getattr(link, "send_many", None) if self._tap is None else None

    def received(self, message: bytes) -> None:
        if self._tap is not None:
            self._tap("server", message)
        event = self.endpoint.receive(message)
        if type(event) is Answer:  # by far the most frequent
            waiting = self._waiting.pop(event.id, None)
            if waiting is not None and not waiting.future.done():
                waiting.future.set_result(event)
        elif event is not None:
            if message.startswith(_BYTE_ORDER_MARK):  # some shells put one in front of all they print
                self.received(message.removeprefix(_BYTE_ORDER_MARK))
                return
            for each in event if isinstance(event, list) else (event,):
                if type(each) is Reply and b'"method"' not in message:
                    self._drop_unreadable()
                else:
                    self._handle(each)

    def oversized(self, limit: int) -> None:
        """The message is read over, so nobody knows whose answer it was, unless only one request is out."""
        self._limit = TransportError(
            f"the server sent a message of more than {limit} bytes; Limits(message_size=…) allows more",
            cause="protocol",
        )
        asked = [id for id, each in self._waiting.items() if each.method != "subscriptions/listen"]
        if len(asked) == 1:
            waiting = self._waiting.pop(asked[0])
            self.endpoint.send_cancel(asked[0])
            fail(waiting, self._lost_error(self._limit, sent=True))

    def ended(self) -> None:
        """A server that says nothing more cannot answer: there is no use in keeping half a connection.

        A child process is left to its link, which waits a moment for the exit status to tell.
        """
        if self.link is not None and not hasattr(self.link, "returncode"):
            self.link.close()

    def lost(self, error: TransportError | None) -> None:
        if self.gone.done():
            return
        reason = error
        if reason is None or reason.cause == "protocol":
            reason = self._limit or reason
        reason = reason or TransportError("the server closed the connection", cause="eof")
        self.gone.set_result(reason)
        self._end(reason)

    # --- what came in ---------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        match event:
            case Answer():
                waiting = self._waiting.pop(event.id, None)
                if waiting is not None and not waiting.future.done():
                    waiting.future.set_result(event)
            case Call():
                task = asyncio.get_running_loop().create_task(self._answer(event))
                self._answering[event.id] = task
            case Notice():
                self._take_note(event)
            case Cancel():
                task = self._answering.get(event.call.id)
                if task is not None:
                    task.cancel()
            case Reply():
                # Modern clients never respond, whatever a server asks.
                if self.link is not None and not self.endpoint.codec.revision.modern:
                    self.write(event.data)
            case Violation():
                self._dropped(event.kind, event.detail)

    def _drop_unreadable(self) -> None:
        """A broken answer is not answered: that would be one more message the server cannot place."""
        counts = self.endpoint.violations
        counts["unreadable"] = counts.get("unreadable", 0) + 1
        self._dropped("unreadable", "a malformed answer")

    def _dropped(self, kind: str, detail: str) -> None:
        """Say so once per kind; a server that repeats itself must not fill the log. Late answers are normal."""
        first = self.endpoint.violations.get(kind) == 1 and kind not in _NORMAL
        log.log(
            logging.WARNING if first else logging.DEBUG,
            "dropped a message of the server (%s): %s",
            kind,
            detail,
        )

    def _take_note(self, notice: Notice) -> None:
        if notice.method == "notifications/progress":
            self._progress(notice.params)
            return
        if notice.method == "notifications/cancelled":
            # Only a listen request comes through here: the server ended the stream.
            ended = Answer(id=notice.params.request_id, method="subscriptions/listen", result=Raw(b"{}"))
            self.endpoint.send_cancel(ended.id)
            self._handle(ended)
            return
        self._peer.take_note(notice)

    def _progress(self, params: Any) -> None:
        waiting = self._waiting.get(params.progress_token)
        if waiting is None:
            return
        self.touch(waiting)
        if waiting.on_progress is not None:
            total = None if params.total is UNSET else params.total
            message = None if params.message is UNSET else params.message
            call_back(waiting.on_progress, params.progress, total, message)

    async def _answer(self, call: Call) -> None:
        """Serve one question of the server."""
        try:
            try:
                result = await self._peer.respond(call, _CallChannel(self, call))
                data = self.endpoint.send_result(call, result)
            except DovetailError as error:
                data = self.endpoint.send_error(call, error)
            except Exception:
                log.exception("answering %s failed", call.method)
                data = self.endpoint.send_error(call, ProtocolError("internal_error"))
            if data is not None:
                self.write(data)
        finally:
            self._answering.pop(call.id, None)
            for waiting in self._waiting.values():
                self.touch(waiting)

    # --- the end --------------------------------------------------------------------------------------------------

    def close(self, error: TransportError | None = None) -> None:
        """End the connection; what still waits fails with ``error``."""
        reason = error or TransportError("the client was closed", cause="closed")
        if not self.gone.done():
            self.gone.set_result(reason)
        self._end(reason)
        if self.link is not None:
            self._flush()
            self.link.close()

    async def answered(self) -> None:
        """Wait until no question of the server is being served any more."""
        while self._answering:
            tasks = list(self._answering.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, reason: TransportError) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        self.endpoint.close()
        for each in waiting.values():
            fail(each, self._lost_error(reason, sent=True))
        for task in self._answering.values():
            task.cancel()
        while self._queue:
            self._next_turn()

    def _lost_error(self, reason: TransportError, *, sent: bool) -> SessionLost:
        return SessionLost(reason.message, cause=reason.cause, maybe_executed=sent)


class _CallChannel(PlainChannel):
    """What answering a question may use: notifications, but no questions back."""

    def __init__(self, conversation: Conversation, call: Call) -> None:
        self._conversation = conversation
        self._call = call

    def notify(self, method: str, params: Struct | None) -> None:
        data = self._conversation.endpoint.send_notification(method, params, call=self._call)
        if data is not None:
            self._conversation.write(data)

    async def request(self, method: str, params: Struct) -> Any:
        raise ProtocolError("method_not_found", "a question is not answered with a question")

    async def drain(self) -> None:
        if self._conversation.link is not None:
            await self._conversation.link.drain()
