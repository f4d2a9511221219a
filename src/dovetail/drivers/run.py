"""One way to run a call: ask the service, and turn whatever becomes of it into bytes or silence.

The only place that knows how calls end. Every driver and transport gives its calls to a `Runner`; it brings a channel,
and it writes what comes back. One runner serves a whole connection or app::

    runner = Runner(service)
    data, error = await runner.run(call, channel, endpoint)

====================================================  ==================================  ========================
what happened                                         ``data``                            ``error``
====================================================  ==================================  ========================
the service answered                                  the result                          None
the answer is too large for the way to the peer       `sizes.instead`: a failed tool …    None
                                                      … or an error                       the same
the service raised a `DovetailError`                  that error                          the same
anything else, every `BaseException` included         ``internal_error``, an incident     the same
the handler let a cancellation of its own escape      ``internal_error``, an incident     the same
**the peer** gave up: ``call.cancelled``              None                                None
**we** shut down: ``runner.draining``                 "shutting down", refusal 1008       `ShuttingDown`
**somebody else** cancelled the task: the host        `asyncio.CancelledError` goes on: write nothing
a `KeyboardInterrupt` or `GeneratorExit`              goes on, as everywhere
====================================================  ==================================  ========================

``data`` is None also when the call is part of a batch that still waits for others, or is large (`Batch.joined` has it
then). So the rule for writing is short: write ``data`` unless it is None; ``call.cancelled`` tells silence that was
asked for from a batch. `status_of` gives the HTTP status of an outcome; `Runner.together` runs the calls of a batch.

Whoever stops a call says why *before* cancelling the task that runs it:

- The peer gave up (``notifications/cancelled``, a stream of 2026-07-28 that was closed, a connection that is lost):
  set ``call.cancelled``; `Endpoint.receive` and `Endpoint.close` do so themselves.
- The time for calls under way is over: set ``runner.draining``, then cancel the tasks that are left.

In both cases `run` returns and takes the cancellation back, because the task may be the host's and go on to live. It
does not if somebody else has cancelled the task as well.

``endpoint`` is the one the call came from. Without it (2026-07-28 over HTTP, where no connection is kept) the reply is
written by the codec of the call, and a large one comes in pieces. The price of it all is one Python call.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, overload

from ..core.admit import Admission
from ..core.budget import Account, busy
from ..core.channel import Call, Channel, Responder
from ..core.endpoint import Endpoint
from ..core.sizes import instead
from ..errors import DovetailError, Refusal, masked
from ..model import CallToolResult, ReadResourceResult, TextContent
from ..settings import LARGE_ANSWER, Limits
from ..wire.long_results import Body, LongResult, Pieces
from .pacing import in_turns, one_by_one, stepwise

log = logging.getLogger("dovetail")

Outcome = tuple[bytes | None, DovetailError | None]
"""What to write, unless it is None; and the error in it, if it is one."""
Answered = tuple[Body | None, DovetailError | None]
"""The same where an answer can be sent in pieces."""
Run = Callable[[Call], Coroutine[Any, Any, Outcome]]
"""How one call of a batch is run."""

CARRIERS: Final = frozenset((CallToolResult, ReadResourceResult))
"""Results that may have long strings in them."""


class ShuttingDown(Refusal):
    """The server takes no more calls, or has no more time for this one. Over HTTP: status 503."""

    def __init__(self) -> None:
        super().__init__(1008, message="the server is shutting down", retry_after=1)


class Runner:
    """Runs the calls of one connection or app; the module says how."""

    __slots__ = ("_answers", "_event", "_message", "_service", "draining", "noted")

    def __init__(
        self, service: Responder, limits: Limits | None = None, answers: Account | None = None
    ) -> None:
        self._service = service
        self._answers = answers
        """What all large answers together may hold while they are written; None: they are written one by one, and
        whoever sends them sees whether they are taken."""
        self._message = None if limits is None else limits.max_response_bytes
        self._event = (
            self._message if limits is None or limits.max_event_bytes is None else limits.max_event_bytes
        )
        self.noted: Callable[[Call, int], None] | None = None
        """Hears how large the answer to a call is at least, before it is written."""
        self.draining = False
        """Calls that are cancelled from now on are cancelled because we shut down, and are told so."""

    @overload
    async def run(self, call: Call, channel: Channel, endpoint: Endpoint) -> Outcome: ...

    @overload
    async def run(self, call: Call, channel: Channel, endpoint: None = None) -> Answered: ...

    async def run(self, call: Call, channel: Channel, endpoint: Endpoint | None = None) -> Answered:
        """Answer ``call``; the module says what comes back. Raises nothing but what ends the task itself."""
        try:
            if call.batch is not None and call.cancelled:
                if endpoint is not None:
                    endpoint.abandon(call)
                return None, None  # before its turn had come
            if call.batch is not None and call.batch.full:
                raise busy("answers in one array")  # whatever it is, it could not be sent
            result: Any = await self._service.respond(call, channel)
            most = self._message
            if self._event is not most and channel.streamed:
                most = self._event
            kind, written, pieces = result.__class__, None, None
            if kind in CARRIERS and (
                kind is not CallToolResult
                or len(result.content) != 1
                or result.content[0].__class__ is not TextContent
                or len(result.content[0].text) > LARGE_ANSWER
            ):
                written, pieces, result = await self._in_steps(call, result, most, endpoint)
            if endpoint is not None:
                return endpoint.send_result(call, result, most, written), None
            if call.cancelled:
                return None, None
            data = pieces or written or call.codec.encode_result(call.id, result)
            if most is not None and len(data) > most:
                data = call.codec.encode_result(call.id, instead(call, result, most))
            return data, None
        except BaseException as reason:
            outside = from_outside(reason, call)
            if outside and not self._take_back(call, reason):
                call.cancelled = True  # whatever the handler left behind speaks to nobody
                if endpoint is not None:
                    endpoint.abandon(call)
                raise
            return self._failed(call, reason, endpoint, outside=outside)

    async def _in_steps(
        self, call: Call, result: Any, most: int | None, endpoint: Endpoint | None
    ) -> tuple[bytes | None, Pieces | None, Any]:
        """A large answer as it is to be sent, written in turns with what others ask for; neither: this is a usual one.

        Raises:
            Refusal: others have so many that there is no room for one more.
        """
        long = LongResult(result, partial(call.codec.encode_result, call.id))
        size, batch = long.size, call.batch
        if not size:
            return None, None, result
        if self.noted is not None:
            self.noted(call, size)
        if most is not None and size > most:
            return None, None, instead(call, result, most)
        account = self._answers
        if batch is not None and endpoint is not None:
            if not batch.takes(size, most or endpoint.limits.max_message_bytes):
                raise busy("answers in one array")
            give = batch.gives
        elif account is None:
            async with one_by_one():
                return await stepwise(long.written()), None, result
        else:
            if not account.taken:
                size = min(size, account.limit)  # one alone may be as large as it likes
            if not account.take(size):
                raise busy("large answers")
            give = account.give
        try:
            if endpoint is None:
                return None, await stepwise(long.pieces()), result
            return await stepwise(long.written()), None, result
        finally:
            give(size)

    async def together(self, calls: Sequence[Call], run: Run) -> list[Outcome]:
        """Run the calls of a batch, each in a task of its own; what cancels this task cancels them all."""
        runs = _Runs(calls, run)
        try:
            await runs.begin()
            await asyncio.shield(runs.over)
        except asyncio.CancelledError:
            await runs.begin()
            await asyncio.sleep(0)  # what has not begun could not say how it ended
            await runs.cancel()
            await runs.over
            here = asyncio.current_task()
            if not self.draining or here is None:
                raise
            here.uncancel()
        if runs.failed is not None:
            raise runs.failed
        return runs.outcomes

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
    return 503 if isinstance(error, ShuttingDown) else admission.status_of(error, call.codec)


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
    incident = secrets.token_hex(6)
    log.error("incident %s: %s failed", incident, what, exc_info=reason or True)
    return masked(incident)


class _Runs:
    """The tasks of a batch. Nothing is done with all of them at once, not even letting go: others would wait for it."""

    def __init__(self, calls: Sequence[Call], run: Run) -> None:
        self._calls = calls
        self._run = run
        self._begun = 0
        self._tasks: set[asyncio.Task[Outcome]] = set()
        self.outcomes: list[Outcome] = []
        self.failed: BaseException | None = None
        self.over = asyncio.get_running_loop().create_future()

    async def begin(self) -> None:
        """Begin those that have not begun."""
        async for some in in_turns(self._calls[self._begun :]):
            for call in some:
                task = asyncio.ensure_future(self._run(call))
                self._tasks.add(task)
                task.add_done_callback(self._ended)
            self._begun += len(some)

    async def cancel(self) -> None:
        async for some in in_turns(range(len(self._tasks))):
            for _ in some:
                if self._tasks:
                    self._tasks.pop().cancel()

    def _ended(self, task: asyncio.Task[Outcome]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed = error
        self.outcomes.append((None, None) if task.cancelled() or self.failed is not None else task.result())
        if len(self.outcomes) == len(self._calls) and not self.over.done():
            self.over.set_result(None)
