"""Several processes without stickiness: everything works from each of them, and outlives the one that is killed.

The three paths of document 004's session life: local (a worker dies), remote (a machine dies), recovery (all die).
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client
from tests.cluster.fleet import Customer, shop, write
from tests.http.children import ANSWER, NEWEST, Child, child
from tests.http.talk import begin, data, post, resume, stream
from tests.support.aio import run_limited
from tests.support.redis import RedisServer
from tests.support.waiting import HANG, until
from tests.support.web import Site, Web, text

STOCK = "fleet://stock/x"


def address(served: Child) -> str:
    return f"http://127.0.0.1:{served.address[1]}/mcp"


async def victim(url: str) -> int:
    async with Client(url) as client:
        return (await client.call_tool("pid")).data


async def kill_some(url: str, customers: list[Customer], times: list[int]) -> None:
    """Kill a worker after every such number of calls."""
    for calls in times:
        # As long as the whole run may take: others go on while one waits for a dead worker to be missed.
        await until(lambda calls=calls: sum(one.made for one in customers) >= calls, limit=300)
        os.kill(await victim(url), signal.SIGKILL)


async def four_workers(folder: Path, *more: str, calls: int, kills: int) -> None:
    async with child(write(folder), "--port", "0", "--workers", "4", *more) as served:
        customers: list[Customer] = []
        times = [4 * calls * number // (kills + 1) for number in range(1, kills + 1)]
        killing = asyncio.create_task(kill_some(address(served), customers, times))
        await shop([address(served)], customers, clients=4, calls=calls)
        await killing
        assert [failure for one in customers for failure in one.failures] == []
        assert kills or not sum(one.uncertain for one in customers)


def test_four_workers_serve_clients_of_every_era_without_stickiness(tmp_path: Path) -> None:
    run_limited(four_workers(tmp_path, calls=20, kills=0), 300)


def test_a_killed_worker_costs_clients_only_certainty_about_their_calls(tmp_path: Path) -> None:
    run_limited(four_workers(tmp_path, calls=32, kills=1), 300)


@pytest.mark.slow
def test_four_workers_two_hundred_calls_each_and_a_kill_now_and_then(tmp_path: Path) -> None:
    run_limited(four_workers(tmp_path, calls=200, kills=5), 300)


@pytest.mark.redis
def test_the_workers_of_one_machine_exchange_messages_through_redis(tmp_path: Path) -> None:
    with RedisServer() as redis:
        run_limited(four_workers(tmp_path, "--store", redis.url, calls=20, kills=0), 120)


@asynccontextmanager
async def machines(folder: Path, redis: RedisServer) -> AsyncIterator[tuple[Child, Child]]:
    """Two processes that share nothing but Redis."""
    path = write(folder)
    async with (
        child(path, "--port", "0", "--store", redis.url) as one,
        child(path, "--port", "0", "--store", redis.url) as two,
    ):
        yield one, two


async def one_call_each(one: Child, two: Child, calls: int) -> None:
    customers: list[Customer] = []
    await shop([address(one), address(two)], customers, clients=4, calls=calls)
    assert [failure for each in customers for failure in each.failures] == []
    assert not sum(each.uncertain for each in customers)


@pytest.mark.redis
@pytest.mark.parametrize("calls", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_two_machines_with_one_redis_serve_each_others_sessions(tmp_path: Path, calls: int) -> None:
    async def scenario() -> None:
        with RedisServer() as redis:
            async with machines(tmp_path, redis) as (one, two):
                await one_call_each(one, two, calls)
                # Updates that one of them causes are heard by the listeners of the other.
                heard = asyncio.Event()
                async with Client(address(two), on_resource_updated=lambda uri: heard.set()) as listener:
                    await listener.subscribe_resource(STOCK)
                    async with Client(address(one)) as seller:
                        await seller.call_tool("sell", {"name": "x"})
                    await heard.wait()

    run_limited(scenario(), 200)


@pytest.mark.redis
def test_a_client_moves_to_the_other_machine_in_the_middle_of_an_input_request_and_when_one_dies(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        with RedisServer() as redis:
            async with machines(tmp_path, redis) as (one, two):
                first, second = site(one), site(two)
                session, _ = await Web(first).initialize(NEWEST)
                await Web(first).legacy(NEWEST, session, "resources/subscribe", {"uri": STOCK})
                connection, events = await begin(first, session, "ask", {"number": 1})
                priming = await anext(events)
                await connection.close()
                again, later = await resume(second, session, priming.id)
                question = await data(later)
                answer = {"jsonrpc": "2.0", "id": question["id"], "result": ANSWER}
                assert (await post(second, session, answer)).status == 202
                assert text((await data(later))["result"]) == "yes"
                await again.close()
                # The machine that sent the request dies: its call will never end, and its client gets an error.
                connection, events = await begin(first, session, "ask", {"number": 2}, id="lost")
                priming = await anext(events)
                assert (await data(events))["method"] == "sampling/createMessage"
                waiting, later = await resume(second, session, priming.id)
                assert (await data(later))["method"] == "sampling/createMessage"
                os.killpg(one.process.pid, signal.SIGKILL)
                async with asyncio.timeout(HANG):
                    end = await data(later)
                assert (end["id"], end["error"]["message"]) == (
                    "lost",
                    "The call was interrupted; it may or may not have been executed",
                )
                # The session itself is whole: its subscription is heard on the machine that is left.
                general, told = await stream(second, session)
                await anext(told)
                await Web(second).legacy(
                    NEWEST, session, "tools/call", {"name": "sell", "arguments": {"name": "x"}}
                )
                assert (await data(told))["params"]["uri"] == STOCK
                for each in (waiting, general):
                    await each.close()

    run_limited(scenario(), 300)


def test_all_of_it_is_killed_and_started_again(tmp_path: Path) -> None:
    store = str(tmp_path / "state.db")

    async def scenario() -> None:
        async with child(write(tmp_path), "--port", "0", "--workers", "2", "--store", store) as served:
            web = site(served)
            session, _ = await Web(web).initialize(NEWEST)
            await Web(web).legacy(NEWEST, session, "resources/subscribe", {"uri": STOCK})
            connection, events = await begin(web, session, "ask", {"number": 1}, id="lost")
            priming = await anext(events)
            assert (await data(events))["method"] == "sampling/createMessage"
            await until_kept(store, priming.id)
            os.killpg(served.process.pid, signal.SIGKILL)
            await served.process.wait()
            await connection.close()
        async with child(write(tmp_path), "--port", "0", "--workers", "2", "--store", store) as served:
            web = site(served)
            general, told = await stream(web, session)
            await anext(told)
            await Web(web).legacy(NEWEST, session, "tools/call", {"name": "sell", "arguments": {"name": "x"}})
            assert (await data(told))["params"]["uri"] == STOCK
            async with asyncio.timeout(HANG):
                again, later = await resume(web, session, priming.id)
                assert (await data(later))["method"] == "sampling/createMessage"
                assert (await data(later))["error"]["code"] == -32603
            for each in (again, general):
                await each.close()

    run_limited(scenario(), 300)


async def until_kept(store: str, event: str) -> None:
    """Wait until the event log is on the disk: what is written in the very moment of the kill may be lost."""
    tag = event.partition(".")[0].encode()
    files = [Path(store), Path(f"{store}-wal")]
    await until(lambda: any(tag in file.read_bytes() for file in files if file.exists()))


def site(served: Child) -> Site:
    found: Any = served  # it connects, and that is all the helpers ask for
    return found
