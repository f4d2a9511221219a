"""Run one call: call the service and turn every outcome into response bytes or silence.

All outcomes of a call are handled here. Every driver and transport passes its calls to a `Runner`, provides a
channel, and writes the returned bytes. One runner serves a whole connection or app::

    runner = Runner(service)
    data, error = await runner.run(call, channel, endpoint)

====================================================  ==================================  ========================
what happened                                         ``data``                            ``error``
====================================================  ==================================  ========================
the service returned a result                         the result                          None
too many requests run (`SharedLimits.requests`)       refusal 1004                        `ServerBusy`
the response is too large for the transport           `oversized_result`: failed tool …   None
                                                      … or an error                       the same
the service raised a `DovetailError`                  the error                           the same
any other exception, every `BaseException` included   ``internal_error``, an incident     the same
an inner cancellation escaped the handler             ``internal_error``, an incident     the same
**the peer** cancelled: ``call.cancelled``            None                                None
**the server** shuts down: ``runner.draining``        "shutting down", refusal 1008       `ShuttingDown`
**the host** cancelled the task                       raises `asyncio.CancelledError`: write nothing
Ctrl-C raised a `KeyboardInterrupt`                   is raised again
the task was destroyed (`GeneratorExit`)              is raised again
====================================================  ==================================  ========================

``data`` is also None while the call's batch waits for other calls. So the rule for writing is short: write
``data`` unless it is None. ``call.cancelled`` distinguishes a cancelled call from a waiting batch.
`status_of` gives the HTTP status of an outcome; `Runner.run_batch` runs the calls of a batch.

Code that stops a call states the reason *before* it cancels the task:

- The peer cancelled (``notifications/cancelled``, a closed stream of 2026-07-28, a lost connection):
  set ``call.cancelled``. `Endpoint.receive` and `Endpoint.close` do this.
- The grace period of a graceful shutdown is over: set ``runner.draining``, then cancel the remaining tasks.

In both cases `run` returns and clears the cancellation, because the task may belong to the host and continue.
It does not if the host cancelled the task as well.

``endpoint`` is the endpoint that admitted the call. Without it (2026-07-28 over HTTP, without a connection)
the codec of the call encodes the response. The cost is one Python call.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from ..core.admit import Admission
from ..core.channel import Call, Channel, Responder
from ..core.endpoint import Endpoint
from ..core.limits import ServerBusy, SharedLimit, busy
from ..core.response_size import oversized_result
from ..errors import DovetailError, Refusal, masked
from ..settings import Limits

GRACE_SECONDS: Final = 1.5
"""Seconds for calls to finish once the input has ended. Clients send SIGTERM about two seconds after that."""


log = logging.getLogger("dovetail")

Outcome = tuple[bytes | None, DovetailError | None]
"""The bytes to write, or None; and the error they contain, if any."""
Run = Callable[[Call], Coroutine[Any, Any, Outcome]]
"""Runs one call of a batch."""


class ShuttingDown(Refusal):
    """The server is shutting down and takes no more calls, or has no time left for this one.

    Over HTTP: status 503.
    """

    def __init__(self) -> None:
        super().__init__(1008, message="the server is shutting down", retry_after=1)


class Runner:
    """Runs the calls of one connection or app; see the module."""

    __slots__ = ("_event", "_message", "_running", "_service", "draining")

    def __init__(
        self,
        service: Responder,
        limits: Limits | None = None,
        *,
        running: SharedLimit | None = None,
    ) -> None:
        self._service = service
        self._running: SharedLimit = running or SharedLimit(sys.maxsize)
        """Counts the requests whose handler runs, of all runners of one server."""
        self._message = None if limits is None else limits.max_response_bytes
        self._event = (
            self._message if limits is None or limits.max_event_bytes is None else limits.max_event_bytes
        )
        self.draining = False
        """The server is shutting down. Calls cancelled from now on get `ShuttingDown`."""

    async def run(self, call: Call, channel: Channel, endpoint: Endpoint | None = None) -> Outcome:
        """Serve ``call``; the module lists the outcomes. It raises only what ends the task."""
        running = self._running
        running.in_use += 1
        try:
            batch = call.batch
            if batch is not None and call.cancelled:
                if endpoint is not None:
                    endpoint.abandon(call)
                return None, None  # cancelled before its handler began
            if running.in_use > running.maximum:
                raise busy("requests in flight")
            if batch is not None and batch.full:
                raise busy("responses in one batch")  # whatever the handler returns, it cannot be sent
            result: Any = await self._service.respond(call, channel)
            most = self._message
            if self._event is not most and channel.streamed:
                most = self._event
            if endpoint is not None:
                return endpoint.send_result(call, result, most), None
            if call.cancelled:
                return None, None
            data = call.codec.encode_result(call.id, result)
            if most is not None and len(data) > most:
                data = call.codec.encode_result(call.id, oversized_result(call, result, most))
            return data, None
        except BaseException as reason:
            outside = is_external(reason, call)
            if outside and not self._clear_cancellation(call, reason):
                call.cancelled = True  # leftover work of the handler can send nothing more
                if endpoint is not None:
                    endpoint.abandon(call)
                raise
            return self._failed(call, reason, endpoint, outside=outside)
        finally:
            running.in_use -= 1

    async def run_batch(self, calls: Sequence[Call], run: Run) -> list[Outcome]:
        """Run the calls of a batch concurrently, each in its own task.

        Cancelling this task cancels them all.
        """
        tasks = [asyncio.ensure_future(run(call)) for call in calls]
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # a call must have started to report how it ended
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            here = asyncio.current_task()
            if not self.draining or here is None:
                raise
            here.uncancel()
        return [(None, None) if task.cancelled() else task.result() for task in tasks]

    def _failed(
        self, call: Call, reason: BaseException, endpoint: Endpoint | None, *, outside: bool
    ) -> Outcome:
        if outside:
            reason.__traceback__ = None  # a traceback refers to frames that refer to it: a reference cycle
            if call.cancelled:
                return None, None
        error = ShuttingDown() if outside else mask(call.method, reason)
        error.__traceback__ = None  # a traceback refers to the caller's frames: a reference cycle
        if endpoint is not None:
            return endpoint.send_error(call, error), error
        return None if call.cancelled else call.codec.encode_error(call.id, error), error

    def _clear_cancellation(self, call: Call, reason: BaseException) -> bool:
        """Whether the runner caused this cancellation. If so, the task's cancellation is cleared."""
        if not isinstance(reason, asyncio.CancelledError) or not (call.cancelled or self.draining):
            return False
        task = asyncio.current_task()
        others = task is not None and task.cancelling() > 0 and task.uncancel() > 0
        return self.draining or not others


def status_of(admission: Admission, call: Call, error: DovetailError | None) -> int:
    """Return the HTTP status of an outcome, if nothing was streamed."""
    if error is None:
        return 200
    return 503 if isinstance(error, ShuttingDown | ServerBusy) else admission.status_of(error, call.codec)


def is_external(error: BaseException, call: Call) -> bool:
    """Whether ``error`` was not caused by the handler and must be raised again: a cancellation, the end of
    the process.

    A handler may also leak an inner cancellation, try to exit the process, or raise a `BaseException` of a
    library, a `KeyboardInterrupt` without Ctrl-C included. These are ordinary failures.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return call.cancelled or task is None or task.cancelling() > 0
    if isinstance(error, GeneratorExit):
        return _current_task() is None
    return isinstance(error, KeyboardInterrupt) and _is_signal(error)


def _current_task() -> asyncio.Task[Any] | None:
    """The task that runs now. A coroutine that is closed rather than run has none."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _is_signal(error: KeyboardInterrupt) -> bool:
    """Whether Ctrl-C raised ``error``: the handler of Python, which leaves no frame, or that of `asyncio.Runner`."""
    if threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename == asyncio.runners.__file__


def mask(what: str, reason: BaseException | None = None) -> DovetailError:
    """Return the error that a peer gets for ``reason``, by default the exception being handled.

    Errors of Dovetail are returned unchanged. For all others the peer gets only the number of a log entry.
    """
    if isinstance(reason, DovetailError):
        return reason
    incident = os.urandom(6).hex()
    log.error("incident=%s %s failed", incident, what, exc_info=reason or True)
    return masked(incident)
