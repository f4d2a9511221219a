"""One way to run a call: ask the service, and turn whatever becomes of it into bytes or silence.

The only place that knows how calls end. Every driver and transport gives its calls to a `Runner`; it brings a channel,
and it writes what comes back. One runner serves a whole connection or app::

    runner = Runner(service)
    data, error = await runner.run(call, channel, endpoint)

====================================================  ==================================  ========================
what happened                                         ``data``                            ``error``
====================================================  ==================================  ========================
the service answered                                  the result                          None
too many requests run (`SharedLimits.requests`)       refusal 1004                        `ServerBusy`
the answer is too large for the way to the peer       `oversized_result`: failed tool …    None
                                                      … or an error                       the same
the service raised a `DovetailError`                  that error                          the same
anything else, every `BaseException` included         ``internal_error``, an incident     the same
the handler let a cancellation of its own escape      ``internal_error``, an incident     the same
**the peer** gave up: ``call.cancelled``              None                                None
**we** shut down: ``runner.draining``                 "shutting down", refusal 1008       `ShuttingDown`
**somebody else** cancelled the task: the host        `asyncio.CancelledError` goes on: write nothing
a `KeyboardInterrupt` or `GeneratorExit`              goes on, as everywhere
====================================================  ==================================  ========================

``data`` is None also when the call is part of a batch that still waits for others. So the rule for writing is short:
write ``data`` unless it is None; ``call.cancelled`` tells silence that was asked for from a batch. `status_of` gives
the HTTP status of an outcome; `Runner.together` runs the calls of a batch.

Whoever stops a call says why *before* cancelling the task that runs it:

- The peer gave up (``notifications/cancelled``, a stream of 2026-07-28 that was closed, a connection that is lost):
  set ``call.cancelled``; `Endpoint.receive` and `Endpoint.close` do so themselves.
- The time for calls under way is over: set ``runner.draining``, then cancel the tasks that are left.

In both cases `run` returns and takes the cancellation back, because the task may be the host's and go on to live. It
does not if somebody else has cancelled the task as well.

``endpoint`` is the one the call came from. Without it (2026-07-28 over HTTP, where no connection is kept) the reply is
written by the codec of the call. The price of it all is one Python call.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ..core.admit import Admission
from ..core.channel import Call, Channel, Responder
from ..core.endpoint import Endpoint
from ..core.limits import ServerBusy, SharedLimit, busy
from ..core.response_size import oversized_result
from ..errors import DovetailError, Refusal, masked
from ..settings import Limits

log = logging.getLogger("dovetail")

Outcome = tuple[bytes | None, DovetailError | None]
"""What to write, unless it is None; and the error in it, if it is one."""
Run = Callable[[Call], Coroutine[Any, Any, Outcome]]
"""How one call of a batch is run."""


class ShuttingDown(Refusal):
    """The server takes no more calls, or has no more time for this one. Over HTTP: status 503."""

    def __init__(self) -> None:
        super().__init__(1008, message="the server is shutting down", retry_after=1)


class Runner:
    """Runs the calls of one connection or app; the module says how."""

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
        """Requests whose handler runs, of all runners of one server."""
        self._message = None if limits is None else limits.max_response_bytes
        self._event = (
            self._message if limits is None or limits.max_event_bytes is None else limits.max_event_bytes
        )
        self.draining = False
        """Calls that are cancelled from now on are cancelled because we shut down, and are told so."""

    async def run(self, call: Call, channel: Channel, endpoint: Endpoint | None = None) -> Outcome:
        """Answer ``call``; the module says what comes back. Raises nothing but what ends the task itself."""
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
            outside = from_outside(reason, call)
            if outside and not self._take_back(call, reason):
                call.cancelled = True  # whatever the handler left behind speaks to nobody
                if endpoint is not None:
                    endpoint.abandon(call)
                raise
            return self._failed(call, reason, endpoint, outside=outside)
        finally:
            running.in_use -= 1

    async def together(self, calls: Sequence[Call], run: Run) -> list[Outcome]:
        """Run the calls of a batch, each in a task of its own; what cancels this task cancels them all."""
        tasks = [asyncio.ensure_future(run(call)) for call in calls]
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # a call that has not begun could not say how it ended
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
            reason.__traceback__ = None  # it leads to frames that hold it: a circle for the collector
            if call.cancelled:
                return None, None
        error = ShuttingDown() if outside else mask(call.method, reason)
        error.__traceback__ = None  # it leads to the frames of whoever gets it: a circle for the collector
        if endpoint is not None:
            return endpoint.send_error(call, error), error
        return None if call.cancelled else call.codec.encode_error(call.id, error), error

    def _take_back(self, call: Call, reason: BaseException) -> bool:
        """Whether it was us who cancelled; then the task is not cancelled any more."""
        if not isinstance(reason, asyncio.CancelledError) or not (call.cancelled or self.draining):
            return False
        task = asyncio.current_task()
        others = task is not None and task.cancelling() > 0 and task.uncancel() > 0
        return self.draining or not others


def status_of(admission: Admission, call: Call, error: DovetailError | None) -> int:
    """The HTTP status of an outcome, as long as nothing has been streamed."""
    if error is None:
        return 200
    return 503 if isinstance(error, ShuttingDown | ServerBusy) else admission.status_of(error, call.codec)


def from_outside(error: BaseException, call: Call) -> bool:
    """Whether ``error`` is none of a handler's doing and has to pass: a cancellation, the end of the process.

    A handler may also let the end of a task of its own escape, try to end the process, or raise a `BaseException` of a
    library: failures like any.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return call.cancelled or task is None or task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


def mask(what: str, reason: BaseException | None = None) -> DovetailError:
    """What a peer is told of ``reason``, by default the exception being handled.

    Our own errors were made for it. Of all others it gets the number of an entry in the log, and nothing else.
    """
    if isinstance(reason, DovetailError):
        return reason
    incident = os.urandom(6).hex()
    log.error("incident %s: %s failed", incident, what, exc_info=reason or True)
    return masked(incident)
