"""Our own requests to a lasting peer: one future each, and a timer only for those that have a limit.

A request ends exactly once: with its answer, with the limit that ran out, with the loss of the connection, or because
its caller was cancelled. Whoever stops waiting has the peer told so, and a late answer is dropped by the endpoint.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, Unpack, cast

from msgspec import UNSET, Raw, Struct

from ..core.channel import Answer
from ..core.endpoint import Endpoint
from ..errors import RequestTimeout, TransportError
from ..model import ProgressNotificationParams
from ..model.meta import PROGRESS_TOKEN
from ..wire.codec import Codec
from ..wire.frames import RequestId
from ..wire.methods import METHODS

log = logging.getLogger("dovetail")

OnProgress = Callable[[float, float | None, str | None], None]


class Asking(TypedDict, total=False):
    """The options of one request."""

    meta: Mapping[str, Any] | None
    on_progress: OnProgress | None
    idle: float | None
    """Seconds of silence since sending or the last progress."""
    total: float | None
    """Seconds until the answer, whatever happens in between."""
    codec: Codec | None
    """For requests before anything is negotiated."""
    raw: bool
    """Return the result as it came."""


class Waiting:
    """A request of ours that the peer has not answered yet."""

    __slots__ = ("future", "idle", "last", "method", "on_progress", "timer", "token", "total", "until")

    def __init__(self, method: str, future: asyncio.Future[Answer], on_progress: OnProgress | None) -> None:
        self.method = method
        self.future = future
        self.on_progress = on_progress
        self.idle: float | None = None
        self.total: float | None = None
        self.last = 0.0  # when the peer last gave a sign of life for this request
        self.until = 0.0  # when the total limit runs out
        self.timer: asyncio.TimerHandle | None = None
        self.token: RequestId | None = None  # what the peer's progress for it is called


class Requests:
    """The requests one connection has out; ``write`` sends their bytes."""

    def __init__(self, endpoint: Endpoint, write: Callable[[bytes], None]) -> None:
        self.waiting: dict[RequestId, Waiting] = {}
        self._endpoint = endpoint
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._progress: dict[RequestId | None, Waiting] = {}

    async def request(self, method: str, params: Struct | Raw | None, **options: Unpack[Asking]) -> Any:
        """Ask the peer and return its decoded result.

        Raises:
            ProtocolError: the peer answered with an error.
            RequestTimeout: a limit ran out; ``limit`` says which.
            TransportError: the connection ended first; ``cause`` says how.
        """
        codec = options.get("codec") or self._endpoint.codec
        id, waiting = self._send(method, params, codec, options)
        try:
            answer = await waiting.future
        except asyncio.CancelledError:
            self._give_up(id, "the caller was cancelled")
            raise
        finally:
            self.waiting.pop(id, None)
            self._progress.pop(waiting.token, None)
            if waiting.timer is not None:
                waiting.timer.cancel()
        row = METHODS.get(method)
        if row is None or options.get("raw"):
            return answer.result
        return codec.decode_result(row, cast("Raw", answer.result))

    def _send(
        self, method: str, params: Struct | Raw | None, codec: Codec, options: Asking
    ) -> tuple[RequestId, Waiting]:
        meta, on_progress = options.get("meta"), options.get("on_progress")
        progress = on_progress is not None
        id, data = self._endpoint.send_request(method, params, meta=meta, progress=progress, codec=codec)
        waiting = Waiting(method, self._loop.create_future(), on_progress)
        self._write(data)
        self.waiting[id] = waiting
        if progress:
            waiting.token = id if meta is None else meta.get(PROGRESS_TOKEN, id)
            self._progress[waiting.token] = waiting
        waiting.idle, waiting.total = options.get("idle"), options.get("total")
        if waiting.idle is not None or waiting.total is not None:
            waiting.last = self._loop.time()
            waiting.until = waiting.last + (waiting.total or 0.0)
            self._arm(id, waiting)
        return id, waiting

    def answered(self, answer: Answer) -> None:
        waiting = self.waiting.pop(answer.id, None)
        if waiting is None or waiting.future.done():
            return
        if answer.error is not None:
            waiting.future.set_exception(answer.error)
        else:
            waiting.future.set_result(answer)

    def progressed(self, params: ProgressNotificationParams) -> bool:
        """Take progress; whether it was for one of ours."""
        waiting = self._progress.get(params.progress_token)
        if waiting is None:
            return False
        waiting.last = self._loop.time()
        total = None if params.total is UNSET else params.total
        message = None if params.message is UNSET else params.message
        try:
            if waiting.on_progress is not None:
                waiting.on_progress(params.progress, total, message)
        except Exception:
            log.exception("on_progress of %s failed", waiting.method)
        return True

    def fail(self, error: TransportError | None) -> None:
        """The connection is over: nobody will be answered any more."""
        text = "the peer closed the connection" if error is None else error.message
        cause = "eof" if error is None else error.cause
        for one in list(self.waiting.values()):
            if not one.future.done():
                one.future.set_exception(TransportError(text, cause=cause))
        self.waiting.clear()

    # --- limits -----------------------------------------------------------------------------------------------

    def _arm(self, id: RequestId, waiting: Waiting) -> None:
        moments = [waiting.until] if waiting.total is not None else []
        if waiting.idle is not None:
            moments.append(waiting.last + waiting.idle)
        waiting.timer = self._loop.call_at(min(moments), self._ring, id, waiting)

    def _ring(self, id: RequestId, waiting: Waiting) -> None:
        """The timer went off: a limit ran out, or there has been life since it was set."""
        now = self._loop.time()
        if waiting.total is not None and now >= waiting.until:
            self._expire(id, waiting, "total", waiting.total)
        elif waiting.idle is not None and now >= waiting.last + waiting.idle:
            self._expire(id, waiting, "idle", waiting.idle)
        else:
            self._arm(id, waiting)

    def _expire(self, id: RequestId, waiting: Waiting, limit: str, seconds: float) -> None:
        self._give_up(id, f"no answer within {seconds:g} s")
        if not waiting.future.done():
            text = f"{waiting.method} was not answered within {seconds:g} s ({limit} limit)"
            waiting.future.set_exception(RequestTimeout(text, limit=limit))

    def _give_up(self, id: RequestId, reason: str) -> None:
        if self.waiting.pop(id, None) is not None:
            data = self._endpoint.send_cancel(id, reason)
            if data is not None:
                self._write(data)
