"""`RateLimit`: accepted and refused messages, and the state it keeps."""

import asyncio
import itertools
import json
import random
from typing import Any

import pytest

from dovetail import Client, ProtocolError, Refusal, Server
from dovetail.core.channel import Call
from dovetail.core.principal import Principal
from dovetail.drivers.middleware_chain import Request
from dovetail.middleware import Rate, RateLimit
from dovetail.middleware import rate_limit as rate
from dovetail.middleware.rate_limit import MAX_IMMEDIATE_REFUSALS
from dovetail.middleware.token_bucket import MAX_RATE_KEYS, SlidingWindows, TokenBuckets
from dovetail.stores.quotas import client_key
from tests.support.aio import run
from tests.support.peer import LEGACY, MODERN, Peer
from tests.support.waiting import turns


class Hand:
    """A clock under the test's hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def shop(*middleware: Any, **options: Any) -> Server:
    server = Server("shop", middleware=middleware, **options)

    @server.tool
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    @server.tool
    async def other() -> str:
        """Something else."""
        return "other"

    @server.resource("shop://stock")
    def stock() -> str:
        return "3"

    return server


async def passed(peer: Peer, count: int, tool: str = "other") -> int:
    """How many of ``count`` calls were served."""
    served = 0
    for _ in range(count):
        answer = await peer.send("tools/call", name=tool)
        served += "result" in answer
    return served


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
@run
async def test_a_burst_passes_and_then_the_rate(revision: str) -> None:
    clock = Hand()
    peer = Peer(shop(RateLimit(per_client="10/s", burst=5, clock=clock)), revision)
    assert await passed(peer, 8) == 5
    clock.now += 0.1
    assert await passed(peer, 3) == 1
    clock.now += 60
    assert await passed(peer, 9) == 5


@run
async def test_a_refusal_says_when_to_come_back_and_then_it_passes() -> None:
    clock = Hand()
    peer = Peer(shop(RateLimit(per_client="2/s", burst=1, clock=clock)))
    assert await passed(peer, 1) == 1
    error = (await peer.send("tools/call", name="other"))["error"]
    assert error["code"] == 1003
    assert error["data"] == {"kind": "rate_limited", "refusal": True, "retryAfterMs": 500, "scope": "client"}
    clock.now += error["data"]["retryAfterMs"] / 1000
    assert await passed(peer, 1) == 1


@run
async def test_erlmcp_says_its_own_number_on_the_revisions_it_has() -> None:
    server = shop(RateLimit(total="1/h"), dialect="erlmcp")
    assert await passed(Peer(server, "2025-11-25"), 1) == 1
    error = (await Peer(server, "2025-11-25").send("tools/call", name="other"))["error"]
    assert (error["code"], error["data"]["kind"]) == (-32010, "rate_limited")
    error = (await Peer(server).send("tools/call", name="other"))["error"]
    assert (error["code"], error["data"]["dialectCode"]) == (1003, -32010)


@pytest.mark.parametrize(
    ("scope", "first", "second"),
    [
        ("per_principal", {"principal": "ann"}, {"principal": "bob"}),
        ("per_client", {"principal": "ann"}, {"principal": "bob"}),
    ],
)
@run
async def test_one_principal_does_not_use_up_another_ones_rate(scope: str, first: Any, second: Any) -> None:
    server = shop(RateLimit(**{scope: "3/m"}))
    assert await passed(Peer(server, **first), 5) == 3
    assert await passed(Peer(server, **second), 5) == 3


@run
async def test_sessions_and_tools_have_rates_of_their_own() -> None:
    server = shop(RateLimit(per_session="2/m", per_tool="5/m"))
    one, two, three = (Peer(server, "2025-06-18") for _ in range(3))
    assert [await passed(peer, 3) for peer in (one, two, three)] == [2, 2, 1]
    answer = await Peer(server, "2025-06-18").send("tools/call", name="echo", arguments={"text": "x"})
    assert "result" in answer
    # Modern calls have no session: only the tool counts.
    assert "error" in await Peer(server).send("tools/call", name="other")
    assert "result" in await Peer(server).send("tools/list")


@run
async def test_lists_count_for_clients_and_not_for_tools() -> None:
    server = shop(RateLimit(per_tool="1/h"))
    peer = Peer(server)
    for _ in range(5):
        assert "result" in await peer.send("tools/list")
    assert await passed(peer, 2) == 1


@run
async def test_erlmcps_figures() -> None:
    clock = Hand()
    server = shop(RateLimit.erlmcp(clock=clock))
    ann, bob = Peer(server, principal="ann"), Peer(server, principal="bob")
    assert await passed(ann, 60) == 50
    assert await passed(bob, 50) == 50
    clock.now += 10
    listed = [await bob.send("tools/list") for _ in range(120)]
    assert sum("result" in answer for answer in listed) == 100


@run
async def test_who_goes_on_is_blocked_for_five_minutes_with_1056() -> None:
    clock = Hand()
    server = shop(RateLimit.erlmcp(clock=clock))
    ann, bob = Peer(server, principal="ann"), Peer(server, principal="bob")
    codes = [(await ann.send("tools/call", name="other")).get("error", {}).get("code") for _ in range(160)]
    assert codes.count(1003) == 100
    assert codes[-1] == 1056
    clock.now += 299
    error = (await ann.send("tools/list"))["error"]
    assert (error["code"], error["data"]["kind"]) == (1056, "quota_exceeded")
    assert error["data"]["retryAfterMs"] == 1000
    assert await passed(bob, 50) == 50
    clock.now += 2
    assert await passed(ann, 50) == 50


@run
async def test_notifications_count_and_are_dropped() -> None:
    middleware = RateLimit(per_session="3/m")
    server = shop(middleware)
    heard: list[Any] = []
    server.add_notification("notifications/acme", lambda params: heard.append(params))
    async with Client(server, revision="2025-06-18") as client:
        for _ in range(5):
            await client.notify("notifications/acme", {})
        with pytest.raises(Refusal):
            await client.list_tools()
    assert len(heard) < 3
    assert middleware.refused > 2
    await server.lifecycle.stop()


@run
async def test_notifications_without_a_session_count_too() -> None:
    middleware = RateLimit(per_client="3/m")
    server = shop(middleware)
    heard: list[Any] = []
    server.add_notification("notifications/acme", lambda params: heard.append(params))
    for _ in range(5):
        notice = {"jsonrpc": "2.0", "method": "notifications/acme", "params": {}}
        await server.handle(json.dumps(notice).encode())
    assert middleware.refused == 2
    await server.lifecycle.stop()


# --- the arithmetic ------------------------------------------------------------------------------------------------


def test_a_bucket_never_gives_more_than_its_burst_and_its_rate() -> None:
    chance = random.Random(7)
    buckets, now, given = TokenBuckets(Rate(10, 1.0), burst=4), 0.0, 0
    for _ in range(5000):
        now += chance.random() * 0.05
        given += not buckets.acquire("a", now)
        assert given <= 4 + 10 * now + 1e-6
    assert given >= 10 * now - 1


def test_a_window_never_gives_more_than_twice_its_rate_in_a_period_and_its_rate_in_the_long_run() -> None:
    chance = random.Random(7)
    windows, now, given = SlidingWindows(Rate(10, 1.0)), 0.0, []
    for _ in range(5000):
        now += chance.random() * 0.05
        if not windows.acquire("a", now):
            given.append(now)
    for first in given:
        assert sum(first <= one < first + 0.999 for one in given) <= 12
    assert 9 * now <= len(given) <= 10 * now + 10


def test_what_a_window_says_to_wait_is_enough() -> None:
    chance = random.Random(3)
    windows, now = SlidingWindows(Rate(5, 1.0)), 0.0
    for _ in range(500):
        now += chance.random() * 0.1
        wait = windows.acquire("a", now)
        if wait:
            now += wait + 1e-6
            assert windows.acquire("a", now) == 0


@run
async def test_a_window_over_the_wire() -> None:
    clock = Hand()
    peer = Peer(shop(RateLimit(per_client="4/s", algorithm="window", clock=clock)))
    assert await passed(peer, 6) == 4
    clock.now += 2
    assert await passed(peer, 6) == 4


@pytest.mark.parametrize("kind", [TokenBuckets, SlidingWindows])
def test_ten_thousand_names_once_each_do_not_grow_the_table_or_push_out_who_is_there(kind: Any) -> None:
    table = kind(Rate(5, 60.0), most=1000)
    served = 0
    for number in range(100_000):
        assert table.acquire(f"guest {number}", 1.0) == 0
        assert len(table) <= 1001
        if number % 100 == 0:
            served += not table.acquire("regular", 1.0)
    assert served == 5


def test_the_default_table_is_bounded() -> None:
    buckets = TokenBuckets(Rate(5, 60.0))
    for number in range(3 * MAX_RATE_KEYS):
        buckets.acquire(number, 1.0)
    assert len(buckets) <= MAX_RATE_KEYS


@pytest.mark.parametrize("kind", [TokenBuckets, SlidingWindows])
@pytest.mark.parametrize("jump", [-86400.0, 86400.0])
def test_a_clock_jump_does_not_lock_clients_out(kind: Any, jump: float) -> None:
    table = kind(Rate(2, 60.0))
    assert [table.acquire("a", 100_000.0) > 0 for _ in range(3)] == [False, False, True]
    later = 100_000.0 + jump
    assert table.acquire("a", later) == 0
    assert 0 <= table.acquire("a", later) <= 60


def test_the_hot_path_does_what_take_does() -> None:
    """`RateLimit.wrap` writes `TokenBuckets.acquire` out."""
    chance, clock = random.Random(1), Hand()
    beside = TokenBuckets(Rate(10, 1.0), 3)
    middleware = RateLimit(per_principal="10/s", burst=3, clock=clock)
    respond = middleware.wrap(lambda request: None)  # type: ignore[arg-type,return-value]
    codec = Server("x").dispatcher.admission.codecs[MODERN]
    for _ in range(3000):
        clock.now += chance.random() * 0.1 - (50 if chance.random() < 0.001 else 0)
        name = chance.choice("abc")
        call = Call(
            id=1, method="ping", params=None, revision=codec.revision, codec=codec, capabilities=None,  # type: ignore[arg-type]
            principal=Principal(name),
        )  # fmt: skip
        wait = beside.acquire(name, clock.now)
        if wait:
            with pytest.raises(ProtocolError) as refused:
                respond(Request(call, None))  # type: ignore[arg-type]
            assert refused.value.retry_after == max(1, round(wait * 1000)) / 1000
        else:
            respond(Request(call, None))  # type: ignore[arg-type]


# --- whose, and what is written ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "name"),
    [
        (("10.0.0.7", 4000), "10.0.0.7"),
        (("::ffff:10.0.0.7", 4000), "10.0.0.7"),
        (("2001:db8:1:2:3:4:5:6", 4000), "2001:0db8:0001:0002"),
        (("2001:db8:1:2:ffff::1", 4000, 0, 0), "2001:0db8:0001:0002"),
        (None, ""),
        (("not an address: at all", 1), "not an address: at all"),
    ],
)
def test_a_client_without_a_name_is_its_address_or_its_network(client: Any, name: str) -> None:
    codec = Server("x").dispatcher.admission.codecs[MODERN]
    call = Call(
        id=1, method="ping", params=None, revision=codec.revision, codec=codec, capabilities=None,  # type: ignore[arg-type]
        scope={"client": client},
    )  # fmt: skip
    assert client_key(call) == name


@pytest.mark.parametrize("rate", ["", "fast", "0/s", "-1/s", "10", "10/y", "10/s/s", 0, -3, float("inf")])
def test_a_rate_that_cannot_be_read_is_said_at_once(rate: Any) -> None:
    with pytest.raises(ValueError, match="write it like"):
        RateLimit(total=rate)


def test_a_burst_that_lets_nothing_through_is_said_at_once() -> None:
    with pytest.raises(ValueError, match="must be at least 1, not 0"):
        RateLimit(total="5/s", burst=0)


def test_a_limit_needs_a_rate() -> None:
    with pytest.raises(ValueError, match="needs at least one rate"):
        RateLimit()


def test_rates_are_read_as_people_write_them() -> None:
    written = {"100/s": 100.0, " 20 / m ": 20 / 60, "3600/h": 1.0, "86400/d": 1.0, 5: 5.0, "0.5/s": 0.5}
    found = {text: Rate.parse(text) for text in written}
    assert {text: rate.count / rate.period for text, rate in found.items()} == written
    assert list(itertools.islice((rate.period for rate in found.values()), 3)) == [1.0, 60.0, 3600.0]


@run
async def test_a_client_with_many_refusals_is_delayed_without_affecting_others() -> None:
    server = shop(RateLimit(per_principal="1/h", clock=Hand()))
    ann, bob = Peer(server, principal="ann"), Peer(server, principal="bob")
    assert await passed(ann, 1 + MAX_IMMEDIATE_REFUSALS) == 1
    waiting = asyncio.ensure_future(ann.send("tools/call", name="other"))
    assert await passed(bob, 20) == 1  # served, and refused at once
    assert not waiting.done()
    assert (await waiting)["error"]["code"] == 1003


@run
async def test_delayed_refusals_are_sent_one_after_the_other() -> None:
    server = shop(RateLimit(per_principal="1/h", clock=Hand()))
    assert await passed(Peer(server, principal="ann"), 1 + MAX_IMMEDIATE_REFUSALS) == 1
    told: list[float] = []

    async def refused() -> None:
        await Peer(server, principal="ann").send("tools/call", name="other")
        told.append(asyncio.get_running_loop().time())

    await asyncio.gather(*(refused() for _ in range(30)))
    # Each its turn, a hundredth of a second long; on a busy machine some come together, but none early.
    assert max(told) - min(told) > 29 / MAX_IMMEDIATE_REFUSALS * 0.9


def test_a_queue_has_a_bound_and_a_clock_jump_does_not_lock_clients_out_of_it() -> None:
    line = TokenBuckets(Rate(10, 1.0))
    waits = [line.reserve("a", 1000.0, 2.0) for _ in range(40)]
    assert waits[:10] == [0.0] * 10
    assert waits[10] < waits[20] < waits[25] <= waits[39]
    assert waits[39] == pytest.approx(2.0)
    assert line.reserve("a", 0.0, 2.0) == 0.0


@run
async def test_refusals_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate, "MAX_DELAYED_REFUSALS", 2)
    monkeypatch.setattr(rate, "REFUSAL_DELAY", 60)
    server = shop(RateLimit(per_principal="1/h", clock=Hand()))
    ann = Peer(server, principal="ann")
    assert await passed(ann, 1 + MAX_IMMEDIATE_REFUSALS) == 1
    held = [
        asyncio.ensure_future(Peer(server, principal="ann").send("tools/call", name="other")) for _ in "ab"
    ]
    await turns(50)
    assert await passed(ann, 50) == 0  # at once
    assert not any(each.done() for each in held)
    for each in held:
        each.cancel()
    await asyncio.wait(held)
