"""Cancellation between two writes, or during one: the store stays consistent."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail import Context, Server
from dovetail.core.principal import Principal
from dovetail.drivers.shielding import run_to_completion
from dovetail.server.handles import owner
from dovetail.stores import SqliteStore, StoreUnavailable
from tests.support.aio import run
from tests.support.peer import Peer
from tests.support.waiting import HANG, turns, until

TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {"form": {}}}
KEY = "io.dovetail/idempotency-key"
Wish = Callable[[str, str, bytes], bool]


class Halting(SqliteStore):
    """Halts at the first write that is wished for, just before or just after it is done."""

    def __init__(
        self, path: Path, wish: Wish = lambda verb, key, value: False, *, after: bool = False
    ) -> None:
        begun = time.time()
        super().__init__(
            path, clock=lambda: begun
        )  # with this clock no lease expires, so no test may wait for that
        self.wish, self.after = wish, after
        self.halted, self.go = asyncio.Event(), asyncio.Event()

    async def _halt(self, verb: str, key: str, value: bytes, *, after: bool) -> None:
        if after == self.after and not self.halted.is_set() and self.wish(verb, key, value):
            self.halted.set()
            await self.go.wait()

    async def put(self, key: str, value: bytes, **options: Any) -> bool:
        await self._halt("put", key, value, after=False)
        done = await super().put(key, value, **options)
        await self._halt("put", key, value, after=True)
        return done

    async def lease(self, key: str, owner: str, ttl: float) -> int:
        await self._halt("lease", key, b"", after=False)
        done = await super().lease(key, owner, ttl)
        await self._halt("lease", key, b"", after=True)
        return done


class Works:
    def __init__(self, store: SqliteStore, **notes: bool) -> None:
        self.runs = 0
        self.gate, self.reached = asyncio.Event(), asyncio.Event()
        self.server = server = Server("works", store=store)

        @server.tool(task="optional")
        async def render() -> str:
            self.runs += 1
            return "rendered"

        @server.tool(task="optional")
        async def spoil() -> str:
            raise ValueError("spoilt")

        @server.tool
        async def pay() -> str:
            self.runs += 1
            return f"paid {self.runs}"

        @server.tool
        async def slow() -> str:
            self.reached.set()
            await self.gate.wait()
            return "done"

        async def charge() -> int:
            self.runs += 1
            return self.runs

        @server.tool(annotations=notes)
        async def buy(ctx: Context) -> str:
            answer = await ctx.elicit("Sure?", ["yes", "no"])
            return f"{answer.data}: {await ctx.step('pay', charge)}"

    def peer(self, key: str | None = None, revision: str = "2026-07-28") -> Peer:
        peer = Peer(self.server, revision, capabilities=TASKS, principal="ann")
        peer.meta = {} if key is None else {KEY: key}
        return peer


async def stopped(works: Works, store: Halting, begun: Callable[[], Any]) -> Any:
    """What ``begun`` gives; then the server stops while its store halts."""
    inside = works.server.running()
    await inside.__aenter__()
    found = await begun()
    await store.halted.wait()
    stopping = asyncio.create_task(inside.__aexit__(None, None, None))
    await turns(100)
    store.go.set()
    await stopping
    return found


async def begin(works: Works, name: str) -> str:
    return (await works.peer().result("tools/call", name=name, arguments={}))["taskId"]


def kept_as(status: bytes) -> Wish:
    return lambda verb, key, value: verb == "put" and key.startswith("task/") and status in value


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("tool", "status"), [("render", "completed"), ("spoil", "completed")])
@run
async def test_a_server_that_stops_while_the_end_of_a_task_is_kept_says_nothing_else_of_it(
    tmp_path: Path, tool: str, status: str, after: bool
) -> None:
    store = Halting(tmp_path / "s.db", kept_as(status.encode()), after=after)
    one = Works(store)
    id = await stopped(one, store, lambda: begin(one, tool))
    two = Works(SqliteStore(tmp_path / "s.db"))
    async with two.server.running():
        task = await two.peer().result("tasks/get", taskId=id)
        assert (task["status"], task.get("error")) == (status, None)
        assert (await two.server.lifecycle.store.scan("work") if two.server.lifecycle.store else None) == []
    assert (one.runs, two.runs) == (1 if tool == "render" else 0, 0)


@run
async def test_the_end_of_a_task_that_its_server_stopped_is_kept_before_its_work_counts_as_done(
    tmp_path: Path,
) -> None:
    """Halted while that is written, and cancelled for good: then it is found among those of the dead."""
    store = Halting(tmp_path / "s.db", kept_as(b"the server stopped"))
    one = Works(store)

    @one.server.tool(task="optional")
    async def wait() -> str:
        one.reached.set()
        await one.gate.wait()
        return ""

    inside = one.server.running()
    await inside.__aenter__()
    id = await begin(one, "wait")
    await one.reached.wait()
    stopping = asyncio.create_task(inside.__aexit__(None, None, None))
    await store.halted.wait()
    store.go.set()
    await stopping
    two = Works(SqliteStore(tmp_path / "s.db"))
    async with two.server.running():
        assert (await two.peer().result("tasks/get", taskId=id))["error"]["message"] == "the server stopped"


class RefusesTheEnd(SqliteStore):
    """A store that is away whenever the end of a task is to be kept."""

    away = True

    async def put(self, key: str, value: bytes, **options: Any) -> bool:
        if self.away and key.startswith("task/") and (b"completed" in value or b"failed" in value):
            raise StoreUnavailable("away")
        return await super().put(key, value, **options)


@run
async def test_a_task_whose_end_the_store_did_not_take_is_not_said_to_run_for_ever(tmp_path: Path) -> None:
    store = RefusesTheEnd(tmp_path / "s.db")
    one = Works(store)
    async with one.server.running():
        id = await begin(one, "render")
        await until(lambda: one.runs == 1)
    two = Works(SqliteStore(tmp_path / "s.db"))
    async with two.server.running():
        async with asyncio.timeout(HANG):
            while (task := await two.peer().result("tasks/get", taskId=id))["status"] == "working":
                await turns(1)
        assert task["error"]["message"] == "the worker process of this task has ended"


@run
async def test_a_task_that_is_cancelled_while_its_result_is_kept_stays_completed(tmp_path: Path) -> None:
    store = Halting(tmp_path / "s.db", kept_as(b"completed"), after=True)
    one = Works(store)
    async with one.server.running():
        id = await begin(one, "render")
        await store.halted.wait()
        cancelling = asyncio.create_task(one.peer("k").send("tasks/cancel", taskId=id))
        await turns(50)
        store.go.set()
        await cancelling
        assert (await one.peer().result("tasks/get", taskId=id))["status"] == "completed"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("what", ["put task/", "lease task/", "put work/"])
@run
async def test_a_disconnect_while_its_task_is_created_leaves_no_task(
    tmp_path: Path, what: str, after: bool
) -> None:
    def wish(verb: str, key: str, value: bytes) -> bool:
        return f"{verb} {key}".startswith(what)

    store = Halting(tmp_path / "s.db", wish, after=after)
    one = Works(store)
    async with one.server.running():
        call = asyncio.create_task(begin(one, "render"))
        await store.halted.wait()
        call.cancel()
        await turns(20)
        store.go.set()
        await asyncio.wait([call])
        assert one.runs == 0
        ann = owner(Principal("ann"))
        for folder in ("work", f"task/{ann}", f"task-place/{ann}"):
            assert await store.scan(folder) == [], folder


# --- calls exactly once, and steps ----------------------------------------------------------------------------


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("what", ["lease once/", "put once/"])
@run
async def test_a_call_whose_caller_leaves_before_it_began_is_made_when_it_comes_again(
    tmp_path: Path, what: str, after: bool
) -> None:
    def wish(verb: str, key: str, value: bytes) -> bool:
        return f"{verb} {key}".startswith(what)

    store = Halting(tmp_path / "s.db", wish, after=after)
    one = Works(store)
    async with one.server.running():
        call = asyncio.create_task(one.peer("k").result("tools/call", name="pay", arguments={}))
        await store.halted.wait()
        call.cancel()
        await turns(20)
        store.go.set()
        await asyncio.wait([call])
        assert one.runs == 0
        async with asyncio.timeout(HANG):
            again = await one.peer("k").result("tools/call", name="pay", arguments={})
        assert (again["content"][0]["text"], one.runs) == ("paid 1", 1)


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_a_result_is_kept_though_its_caller_leaves_in_that_moment(
    tmp_path: Path, revision: str
) -> None:
    def wish(verb: str, key: str, value: bytes) -> bool:
        return verb == "put" and key.startswith("once/") and b"paid" in value

    store = Halting(tmp_path / "s.db", wish)
    one = Works(store)
    async with one.server.running():
        call = asyncio.create_task(one.peer("k", revision).result("tools/call", name="pay", arguments={}))
        await store.halted.wait()
        call.cancel()
        await turns(20)
        store.go.set()
        await asyncio.wait([call])
        again = await one.peer("k", revision).result("tools/call", name="pay", arguments={})
        assert (again["content"][0]["text"], one.runs) == ("paid 1", 1)


@run
async def test_a_server_that_stops_responding_during_a_call_does_not_block_the_caller(
    tmp_path: Path,
) -> None:
    one, two = Works(Halting(tmp_path / "s.db")), Works(Halting(tmp_path / "s.db"))
    async with two.server.running():
        async with one.server.running():
            call = asyncio.create_task(one.peer("k").send("tools/call", name="slow", arguments={}))
            await one.reached.wait()
        async with asyncio.timeout(HANG):
            error = await two.peer("k").error("tools/call", name="slow", arguments={})
        assert error["data"]["kind"] == "call_interrupted"
        call.cancel()
        await asyncio.wait([call])


@pytest.mark.parametrize("harmless", [False, True])
@run
async def test_a_step_that_was_done_is_known_to_be_though_its_call_is_cancelled_in_that_moment(
    tmp_path: Path, harmless: bool
) -> None:
    def wish(verb: str, key: str, value: bytes) -> bool:
        return verb == "put" and key.startswith("step/") and b"true" in value

    store = Halting(tmp_path / "s.db", wish)
    one = Works(store, idempotentHint=harmless)
    async with one.server.running():
        told = (await one.peer().send("tools/call", name="buy", arguments={}))["result"]
        answers = {key: {"action": "accept", "content": {"value": "yes"}} for key in told["inputRequests"]}
        brought = {"requestState": told["requestState"], "inputResponses": answers}
        call = asyncio.create_task(one.peer().send("tools/call", name="buy", arguments={}, **brought))
        await store.halted.wait()
        call.cancel()
        await turns(20)
        store.go.set()
        await asyncio.wait([call])
        async with asyncio.timeout(HANG):
            again = await one.peer().result("tools/call", name="buy", arguments={}, **brought)
        assert (again["content"][0]["text"], one.runs) == ("yes: 1", 1)


@run
async def test_who_is_cancelled_twice_still_does_what_belongs_together() -> None:
    gate, done = asyncio.Event(), list[str]()

    async def writes() -> None:
        await gate.wait()
        done.append("both")

    task = asyncio.create_task(run_to_completion(writes()))
    for _ in range(3):
        await turns(2)
        task.cancel()
    await turns(5)
    assert not task.done()
    gate.set()
    await asyncio.wait([task])
    assert task.cancelled()
    assert done == ["both"]
