"""What goes wrong below a server with a store: callers get an answer or the truth, and nothing is done twice."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, DovetailError, Refusal, Server
from dovetail.stores import RedisStore, SqliteStore, Store
from tests.support.aio import run
from tests.support.redis import RedisServer
from tests.support.waiting import until


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer("--appendfsync", "always") as server:
        yield server


class Till:
    """A server that counts what it does."""

    def __init__(self, store: Store, **options: Any) -> None:
        self.done: list[int] = []
        self.gate, self.reached = asyncio.Event(), asyncio.Event()
        self.server = server = Server("till", store=store, **options)

        @server.tool
        async def pay(number: int) -> int:
            self.done.append(number)
            return number

        @server.tool(annotations={"readOnlyHint": True})
        async def look() -> str:
            return "here"

        @server.tool(task="required", resume=True)
        async def work(ctx: Context) -> str:
            await ctx.step("pay", self.charge)
            self.reached.set()
            await self.gate.wait()
            return "worked"

    async def charge(self) -> int:
        self.done.append(0)
        return 0


async def tried(client: Client, number: int) -> str:
    try:
        await client.call_tool("pay", {"number": number}, idempotency_key=f"key-{number}")
    except DovetailError as error:
        return error.kind
    return "done"


@pytest.mark.redis
@run
async def test_a_task_outlives_a_restart_of_redis(redis: RedisServer) -> None:
    till = Till(RedisStore(redis.url))
    async with till.server.running(), Client(till.server) as client:
        await client.list_tools()  # so that it knows what does no harm, and needs no key
        handle = await client.create_task("work")
        await till.reached.wait()
        redis.kill()
        assert (await client.call_tool("look")).text == "here"  # what needs no state is served
        await asyncio.to_thread(redis.start)
        till.gate.set()
        while True:
            try:
                assert (await handle.result()).text == "worked"
                break
            except Refusal as error:
                if error.code != 1009:
                    raise  # that one says what is broken, until it has looked again
        again = Till(RedisStore(redis.url))
        async with again.server.running(), Client(again.server) as other:
            assert (await other.task(str(handle.id)).result()).text == "worked"
        assert till.done == [0]


@pytest.mark.redis
@run
async def test_a_full_redis_refuses_required_records_before_the_call_runs(redis: RedisServer) -> None:
    till = Till(RedisStore(redis.url))
    async with till.server.running(), Client(till.server) as client:
        await client.list_tools()
        assert await tried(client, 1) == "done"
        redis.ask("CONFIG", "SET", "maxmemory", "1")
        assert await tried(client, 2) == "storage_full"
        assert (await client.call_tool("look")).text == "here"
        redis.ask("CONFIG", "SET", "maxmemory", "0")
        assert await tried(client, 2) == "done"
        assert await tried(client, 1) == "done"
        assert till.done == [1, 2]


@pytest.mark.redis
@pytest.mark.slow
@run
async def test_a_redis_that_is_cut_off_for_ten_seconds_costs_answers_and_no_more(redis: RedisServer) -> None:
    till = Till(RedisStore(redis.url, timeout=1))
    async with till.server.running(), Client(till.server) as client:
        assert await tried(client, 0) == "done"
        redis.freeze()
        begun = time.monotonic()
        said: list[str] = []
        while time.monotonic() - begun < 10:
            said.append(await tried(client, len(said) + 1))
        assert set(said) <= {"dependency_failed", "call_interrupted"}
        redis.thaw()
        for number in range(1, len(said) + 1):
            while (word := await tried(client, number)) == "dependency_failed":
                pass
            assert word in ("done", "call_interrupted")
        assert await tried(client, len(said) + 1) == "done"
        assert len(till.done) == len(set(till.done)), "done twice"


@pytest.mark.parametrize("jump", [600.0, -600.0])
@run
async def test_a_clock_that_jumps_makes_two_workers_and_one_result(tmp_path: Path, jump: float) -> None:
    off = [0.0]
    one = Till(SqliteStore(tmp_path / "s.db", clock=lambda: time.time() + off[0]))
    two = Till(SqliteStore(tmp_path / "s.db"))
    async with one.server.running(), Client(one.server) as client:
        handle = await client.create_task("work")
        await one.reached.wait()
        off[0] = jump
        two.gate.set()
        async with two.server.running(), Client(two.server) as other:
            one.gate.set()
            assert (await handle.result()).text == "worked"
            assert (await other.task(str(handle.id)).result()).text == "worked"
    assert one.done + two.done == [0], "the step was run once, whoever went on"


@run
async def test_two_workers_after_one_task_run_it_once(tmp_path: Path) -> None:
    dead = Till(SqliteStore(tmp_path / "s.db"))
    async with dead.server.running(), Client(dead.server) as client:
        handle = await client.create_task("work")
        await dead.reached.wait()
    ahead = time.time() + 60  # its lease has run out
    heirs = [Till(SqliteStore(tmp_path / "s.db", clock=lambda: ahead), clock=lambda: ahead) for _ in range(3)]
    for heir in heirs:
        heir.gate.set()
    async with heirs[0].server.running(), heirs[1].server.running(), heirs[2].server.running():
        await until(lambda: any(heir.reached.is_set() for heir in heirs))
        async with Client(heirs[0].server) as client:
            assert (await client.task(str(handle.id)).result()).text == "worked"
        assert sum(heir.reached.is_set() for heir in heirs) == 1
    assert dead.done == [0]
    assert [heir.done for heir in heirs] == [[], [], []]
