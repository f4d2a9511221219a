"""`CircuitBreaker`: opens, rests, tries, closes."""

import asyncio
from typing import Any, cast

import pytest

from dovetail import Client, Refusal, Server, ToolError
from dovetail.middleware import CircuitBreaker
from tests.middleware.test_rate_limit import Hand
from tests.support.aio import run
from tests.support.peer import LEGACY, MODERN, Peer
from tests.support.waiting import until


def flaky(*middleware: Any, **options: Any) -> Server:
    server = Server("flaky", middleware=middleware, **options)

    @server.tool
    async def work(how: str = "fine") -> str:
        """Work."""
        if how == "broken":
            raise ConnectionError("the database is away")
        if how == "failed":
            raise ToolError("no such order")
        if how == "refused":
            raise Refusal(1001)
        return how

    @server.tool(timeout=0.01)
    async def slow() -> str:
        """Never end."""
        await asyncio.Event().wait()
        return "never"

    return server


async def ended(peer: Peer, how: str, tool: str = "work") -> str:
    """How a call ended: "fine", "error result", or the code of its error."""
    arguments = {"how": how} if tool == "work" else {}
    answer = await peer.send("tools/call", name=tool, arguments=arguments)
    if "error" in answer:
        return str(answer["error"]["code"])
    return "error result" if answer["result"].get("isError") else "fine"


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
@run
async def test_five_failures_open_it_for_a_minute_and_two_successes_close_it(revision: str) -> None:
    clock, changes = Hand(), list[tuple[str, str]]()
    middleware = CircuitBreaker(failure_threshold=5, reset_timeout=60, clock=clock)
    middleware.on_change = lambda name, state: changes.append((name, state))
    peer = Peer(flaky(middleware), revision)
    assert [await ended(peer, "broken") for _ in range(5)] == ["error result"] * 5
    answer = await peer.send("tools/call", name="work", arguments={"how": "fine"})
    assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (1008, "circuit_open")
    assert answer["error"]["data"]["retryAfterMs"] == 60_000
    clock.now += 59.9
    assert await ended(peer, "fine") == "1008"
    clock.now += 0.1
    assert middleware.states == {"work": "open"}
    assert await ended(peer, "fine") == "fine"
    assert middleware.states == {"work": "half_open"}
    assert await ended(peer, "fine") == "fine"
    assert middleware.states == {}
    assert changes == [("work", "open"), ("work", "half_open"), ("work", "closed")]


@run
async def test_a_failure_while_it_tries_opens_it_again() -> None:
    clock = Hand()
    peer = Peer(flaky(CircuitBreaker(failure_threshold=1, reset_timeout=10, clock=clock)))
    assert await ended(peer, "broken") == "error result"
    clock.now += 10
    assert await ended(peer, "broken") == "error result"
    assert await ended(peer, "fine") == "1008"


@run
async def test_bad_arguments_tool_errors_and_refusals_are_no_failures() -> None:
    middleware = CircuitBreaker(failure_threshold=1)
    peer = Peer(flaky(middleware))
    for _ in range(3):
        assert await ended(peer, "failed") == "error result"
        assert await ended(peer, "refused") == "1001"
        assert "result" in await peer.send("tools/call", name="work", arguments={"how": 3})
        assert "error" in await peer.send("tools/call", name="nobody")
    assert middleware.states == {}
    assert await ended(peer, "fine") == "fine"


@run
async def test_timeouts_are_failures_and_successes_in_between_reset_the_count() -> None:
    middleware = CircuitBreaker(failure_threshold=2)
    peer = Peer(flaky(middleware))
    assert await ended(peer, "", "slow") == "error result"
    assert await ended(peer, "", "slow") == "error result"
    assert await ended(peer, "", "slow") == "1008"
    for _ in range(3):
        assert await ended(peer, "broken") == "error result"
        assert await ended(peer, "fine") == "fine"
    assert middleware.states == {"slow": "open"}


@run
async def test_the_same_on_erlmcps_wire_is_1086() -> None:
    peer = Peer(flaky(CircuitBreaker(failure_threshold=1), dialect="erlmcp"), "2025-11-25")
    assert await ended(peer, "broken") == "-32031"
    assert await ended(peer, "fine") == "1086"


@pytest.mark.parametrize(("dialect", "code"), [("official", "1009"), ("erlmcp", "-32039")])
@run
async def test_an_upstream_of_several_tools_has_one_circuit(dialect: str, code: str) -> None:
    upstreams = {"work": "db", "slow": "db"}
    middleware = CircuitBreaker(failure_threshold=1, per=lambda request: upstreams.get(request.name))
    peer = Peer(flaky(middleware, dialect=dialect), "2025-11-25")
    await ended(peer, "broken")
    assert await ended(peer, "", "slow") == code
    assert middleware.states == {"db": "open"}


@run
async def test_while_one_call_tries_the_others_are_refused() -> None:
    clock, go = Hand(), asyncio.Event()
    server = flaky(CircuitBreaker(failure_threshold=1, reset_timeout=10, success_threshold=1, clock=clock))
    begun = asyncio.Event()

    @server.tool
    async def held(broken: bool = False) -> str:
        if broken:
            raise OSError
        begun.set()
        await go.wait()
        return "fine"

    peer = Peer(server)
    await peer.send("tools/call", name="held", arguments={"broken": True})
    clock.now += 11
    trying = asyncio.ensure_future(peer.send("tools/call", name="held"))
    await until(begun.is_set)
    assert (await peer.send("tools/call", name="held"))["error"]["code"] == 1008
    go.set()
    assert "result" in await trying
    assert "result" in await peer.send("tools/call", name="held")


@run
async def test_a_clock_that_goes_back_does_not_keep_it_open() -> None:
    clock = Hand()
    peer = Peer(flaky(CircuitBreaker(failure_threshold=1, reset_timeout=60, clock=clock)))
    await ended(peer, "broken")
    clock.now -= 10_000
    assert await ended(peer, "fine") == "fine"


@pytest.mark.parametrize(
    "options", [{"failure_threshold": 0}, {"reset_timeout": 0}, {"success_threshold": 0}]
)
def test_figures_that_mean_nothing_are_said_at_once(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="CircuitBreaker needs"):
        CircuitBreaker(**options)


def test_what_breaks_together_is_a_tool_or_what_a_function_names() -> None:
    with pytest.raises(ValueError, match="not 'server'"):
        CircuitBreaker(per=cast("Any", "server"))


@run
async def test_work_that_fails_inside_a_task_opens_it() -> None:
    breaker = CircuitBreaker(failure_threshold=2, reset_timeout=60)
    server = Server("flaky", middleware=[breaker])

    @server.tool(task="optional")
    async def render(how: str = "broken") -> str:
        if how == "broken":
            raise ConnectionError("away")
        return how

    async with Client(server) as client:
        for _ in range(2):
            handle = await client.create_task("render")
            with pytest.raises(ToolError):
                await handle.result()
        await until(lambda: breaker.states == {"render": "open"})
        with pytest.raises(Refusal) as caught:
            await client.create_task("render")
        assert caught.value.code == 1008


@run
async def test_an_upstream_that_is_away_is_a_component_that_is_not_ok() -> None:
    clock = Hand()
    server = flaky(
        CircuitBreaker(failure_threshold=1, success_threshold=1, per=lambda call: "bank", clock=clock)
    )
    peer = Peer(server)
    await ended(peer, "broken")
    assert server.health.describe()["upstream:bank"] == {"ok": False}
    assert server.health.status == "degraded"
    clock.now += 61
    assert await ended(peer, "fine") == "fine"
    assert server.health.status == "ready"
