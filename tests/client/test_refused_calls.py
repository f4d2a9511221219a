"""A client obeys: it waits as long as a server asks for, where the call may be repeated."""

import asyncio
from typing import Any

import pytest

from dovetail import Client, Refusal, Server
from dovetail.settings import Reconnect, Timeouts
from dovetail.testing import FakeClock
from tests.support.aio import run
from tests.support.schemas import REVISIONS
from tests.support.waiting import HANG, turns


class Refusing:
    """A server that refuses some calls before it serves one."""

    def __init__(self, times: int, wait: float | None) -> None:
        self.server = Server("shop")
        self.calls = 0

        async def answer() -> str:
            self.calls += 1
            if self.calls <= times:
                raise Refusal(1003, retry_after=wait)
            return "served"

        self.server.tool(name="look", annotations={"readOnlyHint": True})(answer)
        self.server.tool(name="pay")(answer)


async def called(one: Refusing, tool: str = "look", **options: Any) -> tuple[str, float]:
    """What came of a call, and how many seconds of the client's time it took."""
    clock = FakeClock()
    options = {"reconnect": Reconnect(jitter=0), **options}
    async with Client(one.server, clock=clock, **options) as client:
        await client.list_tools()  # now it knows what may be repeated
        begun = clock.time()
        task = asyncio.ensure_future(client.call_tool(tool))
        async with asyncio.timeout(HANG):
            while not task.done():
                await turns()
                clock.advance(0.05)
        return task.result().text, clock.time() - begun


@pytest.mark.parametrize("revision", REVISIONS[1:])  # before that no tool says what it is
@run
async def test_a_call_that_may_be_repeated_is_made_again_when_the_server_said(revision: str) -> None:
    one = Refusing(2, 1.5)
    text, took = await called(one, revision=revision)
    assert (text, one.calls) == ("served", 3)
    assert 3.0 <= took < 4.0


@run
async def test_a_call_that_may_have_done_something_is_not() -> None:
    one = Refusing(1, 0.1)
    with pytest.raises(Refusal) as caught:
        await called(one, "pay")
    assert (caught.value.code, caught.value.retry_after, one.calls) == (1003, 0.1, 1)


@pytest.mark.parametrize(
    ("times", "wait", "options"),
    [
        (1, None, {}),  # it does not say when
        (1, 60, {}),  # longer than anybody waits
        (1, 3, {"timeouts": Timeouts(total=2)}),  # longer than this caller waits
        (1, 1, {"reconnect": Reconnect(retry_calls=False)}),
    ],
)
@run
async def test_limits_of_the_client_are_reported_immediately(
    times: int, wait: float | None, options: dict[str, Any]
) -> None:
    one = Refusing(times, wait)
    with pytest.raises(Refusal):
        await called(one, **options)
    assert one.calls == 1


@run
async def test_a_server_that_never_serves_is_given_up() -> None:
    one = Refusing(100, 0.0)
    with pytest.raises(Refusal):
        await called(one)
    assert one.calls == 6
