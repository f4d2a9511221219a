"""How a call ends: one ladder for every driver and transport."""

import asyncio
import gc
import json
import logging
import signal
from collections.abc import Coroutine, Generator
from typing import Any
from weakref import ref

import pytest

from dovetail.core.channel import Call, Channel, PlainChannel
from dovetail.core.endpoint import Endpoint
from dovetail.core.limits import SharedLimit
from dovetail.drivers.run import Outcome, Runner, ShuttingDown, status_of
from dovetail.errors import LocalProtocolError, ProtocolError, Refusal
from tests.support.aio import run
from tests.support.rawclient import META, MODERN
from tests.support.waiting import until

from .parrot import Gate, Parrot, Tool, text

SECRET = "the password is swordfish"


class Mute(PlainChannel):
    """An unused channel."""

    def notify(self, method: str, params: Any) -> None: ...

    async def request(self, method: str, params: Any) -> Any: ...

    async def drain(self) -> None: ...


class Run:
    """One call of a tool, with or without an endpoint, in a separate task."""

    def __init__(self, tool: Tool, *, kept: bool) -> None:
        self.service = Parrot(tool=tool)
        self.runner = Runner(self.service)
        self.endpoint = Endpoint(self.service.admission)
        meta: dict[str, Any] = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
        params = {"name": "tool", "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        call = self.endpoint.receive(json.dumps(message).encode())
        assert isinstance(call, Call)
        self.call = call
        self._kept = kept

    def start(self) -> asyncio.Task[Outcome]:
        return asyncio.ensure_future(self.outcome())

    def outcome(self) -> Coroutine[Any, Any, Outcome]:
        return self.runner.run(self.call, Mute(), self.endpoint if self._kept else None)


both = pytest.mark.parametrize("kept", [True, False], ids=["endpoint", "alone"])


def raising(error: BaseException) -> Tool:
    async def tool(call: Call, channel: Channel) -> Any:
        raise error

    return tool


def incident(outcome: Outcome) -> str:
    """The number of a masked failure, which is all that a peer may learn."""
    data, error = outcome
    assert data is not None
    assert isinstance(error, ProtocolError)
    assert SECRET.encode() not in data
    answer = json.loads(data)
    assert (answer["id"], answer["error"]["code"]) == (7, -32603)
    return answer["error"]["data"]["incident"]


@both
def test_a_result_is_written_and_the_id_is_free_again(kept: bool) -> None:
    @run
    async def scenario() -> None:
        async def tool(call: Call, channel: Channel) -> Any:
            return text("fine")

        one = Run(tool, kept=kept)
        data, error = await one.outcome()
        assert data is not None
        assert json.loads(data)["result"]["content"] == [{"type": "text", "text": "fine"}]
        assert error is None
        assert bool(one.endpoint.in_flight) is not kept

    scenario()


@both
def test_an_own_error_is_returned_unchanged(kept: bool) -> None:
    @run
    async def scenario() -> None:
        refusal = Refusal(1003, retry_after=2)
        data, error = await Run(raising(refusal), kept=kept).outcome()
        assert error is refusal
        assert data is not None
        assert json.loads(data)["error"]["code"] == 1003

    scenario()


@both
@pytest.mark.parametrize(
    "error",
    [
        ValueError(SECRET),
        SystemExit(SECRET),
        BaseException(SECRET),
        BaseExceptionGroup(SECRET, [SystemExit(1)]),
        ExceptionGroup(SECRET, [ValueError(SECRET)]),
        asyncio.CancelledError(SECRET),
        GeneratorExit(SECRET),
        KeyboardInterrupt(SECRET),
    ],
    ids=lambda error: type(error).__name__,
)
def test_everything_else_a_handler_raises_is_masked(
    error: BaseException, kept: bool, caplog: pytest.LogCaptureFixture
) -> None:
    @run
    async def scenario() -> None:
        number = incident(await Run(raising(error), kept=kept).outcome())
        with_trace = [record for record in caplog.records if number in record.getMessage()]
        assert len(with_trace) == 1
        assert with_trace[0].exc_info is not None
        assert with_trace[0].exc_info[1] is error

    with caplog.at_level(logging.ERROR):
        scenario()


@both
def test_a_result_that_cannot_be_written_is_an_error(kept: bool) -> None:
    @run
    async def scenario() -> None:
        async def tool(call: Call, channel: Channel) -> Any:
            return object()

        data, error = await Run(tool, kept=kept).outcome()
        assert isinstance(error, LocalProtocolError)
        assert data is not None
        assert json.loads(data)["error"]["code"] == -32603

    scenario()


@both
@pytest.mark.parametrize("handled", ["by Python", "by asyncio"])
def test_ctrl_c_goes_on(kept: bool, handled: str) -> None:
    one: list[Run] = []

    async def scenario() -> None:
        async def interrupted(call: Call, channel: Channel) -> Any:
            if handled == "by Python":
                signal.signal(signal.SIGINT, signal.default_int_handler)
            for _ in range(2):  # asyncio cancels the main task first
                signal.raise_signal(signal.SIGINT)

        one.append(Run(interrupted, kept=kept))
        await one[0].outcome()

    previous = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(scenario())
    finally:
        signal.signal(signal.SIGINT, previous)
    assert one[0].call.cancelled


@both
def test_a_task_that_is_destroyed_says_nothing(kept: bool) -> None:
    class Forever:
        def __await__(self) -> Generator[None, None, None]:
            while True:
                yield

    async def waiting(call: Call, channel: Channel) -> Any:
        await Forever()

    one = Run(waiting, kept=kept)
    coroutine = one.outcome()
    coroutine.send(None)
    coroutine.close()
    assert one.call.cancelled


@both
def test_a_call_the_peer_gave_up_ends_in_silence_and_its_task_lives_on(kept: bool) -> None:
    @run
    async def scenario() -> None:
        gate = Gate()
        one = Run(gate, kept=kept)
        task = one.start()
        await gate.reached.wait()
        one.call.cancelled = True
        task.cancel()
        assert await task == (None, None)
        assert gate.cancelled
        assert task.cancelling() == 0

    scenario()


@both
@pytest.mark.parametrize("ending", ["result", "error"])
def test_a_response_of_a_handler_after_cancellation_is_dropped(ending: str, kept: bool) -> None:
    @run
    async def scenario() -> None:
        reached = asyncio.Event()

        async def tool(call: Call, channel: Channel) -> Any:
            reached.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if ending == "error":
                    raise Refusal from None
            return text("all the same")

        one = Run(tool, kept=kept)
        task = one.start()
        await reached.wait()
        one.endpoint.close()  # the connection is lost
        task.cancel()
        assert (await task)[0] is None

    scenario()


@both
def test_a_call_that_exceeds_the_grace_period_gets_a_shutdown_error(kept: bool) -> None:
    @run
    async def scenario() -> None:
        gate = Gate()
        one = Run(gate, kept=kept)
        task = one.start()
        await gate.reached.wait()
        one.runner.draining = True
        task.cancel()
        data, error = await task
        assert isinstance(error, ShuttingDown)
        assert data is not None
        told = json.loads(data)["error"]
        assert (told["code"], told["data"]["retryAfterMs"]) == (1008, 1000)
        assert task.cancelling() == 0

    scenario()


@both
def test_a_cancellation_of_the_host_goes_on_and_nothing_is_kept(kept: bool) -> None:
    @run
    async def scenario() -> None:
        gate = Gate()
        one = Run(gate, kept=kept)
        task = one.start()
        await gate.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert one.call.cancelled
        assert bool(one.endpoint.in_flight) is not kept

    scenario()


@both
def test_a_cancellation_by_the_host_is_handled_like_one_by_the_peer(kept: bool) -> None:
    @run
    async def scenario() -> None:
        gate = Gate()
        one = Run(gate, kept=kept)
        task = one.start()
        await gate.reached.wait()
        one.call.cancelled = True
        task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    scenario()


@both
def test_a_handler_whose_own_timeout_fires_is_no_cancelled_call(kept: bool) -> None:
    @run
    async def scenario() -> None:
        async def tool(call: Call, channel: Channel) -> Any:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()

        incident(await Run(tool, kept=kept).outcome())

    scenario()


@run
async def test_a_failed_call_leaves_no_reference_cycle() -> None:
    async def tool(call: Call, channel: Channel) -> Any:
        raise Refusal

    one = Run(tool, kept=True)
    gc.disable()
    try:
        _, error = await one.outcome()
        assert error is not None
        gone = ref(error)
        del error, _
        assert gone() is None
    finally:
        gc.enable()


@both
def test_requests_above_the_limit_of_the_server_are_refused_until_one_has_ended(kept: bool) -> None:
    @run
    async def scenario() -> None:
        gate = Gate()
        running = SharedLimit(2)

        def one() -> Run:
            made = Run(gate, kept=kept)
            made.runner = Runner(made.service, running=running)
            return made

        first, second = one().start(), one().start()
        await until(lambda: running.in_use == 2)
        third = one()
        data, error = await third.outcome()
        assert data is not None
        assert json.loads(data)["error"]["code"] == 1004
        assert status_of(third.service.admission, third.call, error) == 503
        gate.open.set()
        assert json.loads((await first)[0] or b"")["result"]
        assert json.loads((await second)[0] or b"")["result"]
        assert (await one().outcome())[1] is None
        assert running.in_use == 0

    scenario()


@both
def test_a_cancelled_request_counts_until_its_handler_has_ended(kept: bool) -> None:
    @run
    async def scenario() -> None:
        begun, cancelled, release = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def stubborn(call: Call, channel: Channel) -> Any:
            begun.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                cancelled.set()
                await release.wait()

        one = Run(stubborn, kept=kept)
        running = SharedLimit(1)
        one.runner = Runner(one.service, running=running)
        task = one.start()
        await begun.wait()
        one.call.cancelled = True
        task.cancel()
        await cancelled.wait()
        assert running.in_use == 1
        release.set()
        assert await task == (None, None)
        assert running.in_use == 0

    scenario()
