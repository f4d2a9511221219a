"""Tasks that outlive their worker: seen, answered and ended from everywhere, and taken up after a death."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Server
from dovetail.stores import MemoryStore, SqliteStore, Store
from dovetail.stores.versioned_records import VersionedRecords
from tests.support.aio import run, run_limited
from tests.support.peer import Peer
from tests.support.shared import Shared
from tests.support.waiting import HANG, turns, until

from .mortal import NAMES, make

ROOT = Path(__file__).resolve().parents[2]

TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {"form": {}}}
CORE = "2025-11-25"


class Worker:
    """One process of a server, as far as a test in one process can have it."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self.gate = asyncio.Event()
        self.runs = 0
        self.server = server = Server("works", store=store, clock=clock)

        @server.tool(task="optional")
        async def wait(ctx: Context) -> str:
            self.runs += 1
            await ctx.report_progress(1, 2, "half")
            await self.gate.wait()
            return "done"

        @server.tool(task="optional")
        async def confirm(ctx: Context) -> str:
            answer = await ctx.elicit("Sure?", ["yes", "no"])
            return f"{answer.action} {answer.data}"

        @server.tool(task="optional", resume=True)
        async def again(ctx: Context) -> str:
            self.runs += 1
            await self.gate.wait()
            return f"done by {self.runs}"

    def modern(self, principal: str | None = "ann") -> Peer:
        return Peer(self.server, capabilities=TASKS, principal=principal)

    def core(self, **options: Any) -> Peer:
        return Peer(self.server, CORE, principal="ann", **options)


async def begun(peer: Peer, name: str) -> str:
    if peer.session is None:
        return (await peer.result("tools/call", name=name, arguments={}))["taskId"]
    return (await peer.result("tools/call", name=name, arguments={}, task={}))["task"]["taskId"]


async def reaches(peer: Peer, id: str, *wanted: str) -> dict[str, Any]:
    async with asyncio.timeout(HANG):
        while (task := await peer.result("tasks/get", taskId=id))["status"] not in wanted:
            await turns(1)
    return task


@run
async def test_a_task_is_seen_on_every_worker_by_its_principal_alone(shared: Shared) -> None:
    one, two = Worker(shared.store()), Worker(shared.store())
    async with one.server.running(), two.server.running():
        id = await begun(one.modern(), "wait")
        assert (await two.modern().result("tasks/get", taskId=id))["status"] == "working"
        for stranger in (two.modern("bob"), two.modern(None)):
            assert (await stranger.error("tasks/get", taskId=id))["code"] == -32602
        one.gate.set()
        done = await reaches(two.modern(), id, "completed")
        assert done["result"]["content"][0]["text"] == "done"


@run
async def test_a_task_is_cancelled_from_another_worker(shared: Shared) -> None:
    one, two = Worker(shared.store()), Worker(shared.store())
    async with one.server.running(), two.server.running():
        id = await begun(one.core(), "wait")
        await until(lambda: one.runs == 1)
        cancelled = await two.core().result("tasks/cancel", taskId=id)
        assert cancelled["status"] == "cancelled"
        assert (await reaches(one.core(), id, "cancelled"))["status"] == "cancelled"
        assert (await two.core().error("tasks/cancel", taskId=id))["code"] == -32602


@run
async def test_input_requests_of_a_task_are_answered_on_another_worker(shared: Shared) -> None:
    one, two = Worker(shared.store()), Worker(shared.store())
    async with one.server.running(), two.server.running():
        id = await begun(one.modern(), "confirm")
        task = await reaches(two.modern(), id, "input_required")
        (key,) = task["inputRequests"]
        answer = {"action": "accept", "content": {"value": "yes"}}
        await two.modern().result("tasks/update", taskId=id, inputResponses={key: answer})
        done = await reaches(two.modern(), id, "completed")
        assert done["result"]["content"][0]["text"] == "accept yes"


@run
async def test_the_result_is_waited_for_and_its_input_requests_come_on_another_worker(shared: Shared) -> None:
    one, two = Worker(shared.store()), Worker(shared.store())
    async with one.server.running(), two.server.running():
        id = await begun(one.core(), "confirm")
        peer = two.core(answer=lambda method, params: {"action": "accept", "content": {"value": "no"}})
        result = await peer.result("tasks/result", taskId=id)
        assert result["content"][0]["text"] == "accept no"
        waiting = await begun(one.core(), "wait")
        elsewhere = asyncio.create_task(two.core().result("tasks/result", taskId=waiting))
        await until(lambda: one.runs == 1)
        one.gate.set()
        assert (await elsewhere)["content"][0]["text"] == "done"


@run
async def test_a_worker_that_stops_in_order_leaves_to_others_what_may_run_again(shared: Shared) -> None:
    one, two = Worker(shared.store()), Worker(shared.store())
    async with one.server.running():
        left, failed = await begun(one.modern(), "again"), await begun(one.modern(), "wait")
        await until(lambda: one.runs == 2)
    two.gate.set()
    async with two.server.running():
        done = await reaches(two.modern(), left, "completed", "failed")
        assert done["result"]["content"][0]["text"] == "done by 1"
        assert (await reaches(two.modern(), failed, "failed"))["error"]["message"] == "the server stopped"


def test_a_process_that_was_forked_from_the_same_server_takes_nothing_from_its_sibling(
    tmp_path: Path,
) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.server.forked",
        str(tmp_path / "state.db"),
        str(tmp_path / "effects"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr


class GivesBackSlowly(SqliteStore):
    """The lease of a task that has ended is still being given back when its server stops."""

    async def lease(self, key: str, owner: str, ttl: float) -> int:
        if ttl == 0:
            await turns(200)
        return await super().lease(key, owner, ttl)


@run
async def test_a_server_that_stops_right_after_a_task_has_ended_gives_its_lease_back(tmp_path: Path) -> None:
    store = GivesBackSlowly(tmp_path / "state.db")
    one = Worker(store)
    one.gate.set()
    async with one.server.running():
        await reaches(one.modern(None), await begun(one.modern(None), "wait"), "completed")
    ((key, _),) = await store.scan("task/-")
    assert await SqliteStore(tmp_path / "state.db").lease(key, "somebody else", 10)


def effects(path: Path) -> list[str]:
    return sorted(path.read_text().split()) if path.exists() else []


def test_after_a_kill_tasks_run_again_where_they_may_and_fail_with_the_reason_where_not(
    shared: Shared, tmp_path: Path
) -> None:
    mark = tmp_path / "effects"
    command = [sys.executable, "-m", "tests.server.mortal", shared.place, str(mark)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert child.stdout is not None
    ids = [child.stdout.readline().strip() for _ in NAMES]

    async def scenario() -> None:
        await until(lambda: effects(mark) == ["idempotent", "once", "paid", "resumed"])
        child.send_signal(signal.SIGKILL)
        child.wait()
        shared.leases_run_out()
        server = make(shared.store(), str(mark), shared.clock, ends=True)
        async with server.running():
            peer = Peer(server, capabilities=TASKS)
            first = await reaches(peer, ids[0], "completed", "failed")
            assert first["result"]["content"][0]["text"] == "done again"
            second = await reaches(peer, ids[1], "completed", "failed")
            assert second["result"]["content"][0]["text"] == "paid 42"
            third = await reaches(peer, ids[2], "completed", "failed")
            assert third["status"] == "failed"
            assert third["error"]["message"] == "the worker process of this task has ended"
        assert effects(mark) == ["idempotent", "idempotent", "once", "paid", "resumed", "resumed"]

    try:
        run_limited(scenario())
    finally:
        child.kill()
        child.stdout.close()


def test_the_leases_of_a_dead_worker_are_not_waited_for(tmp_path: Path) -> None:
    mark, place = tmp_path / "effects", str(tmp_path / "s.db")
    begun = time.time()
    command = [sys.executable, "-m", "tests.server.mortal", place, str(mark)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert child.stdout is not None
    ids = [child.stdout.readline().strip() for _ in NAMES]

    async def scenario() -> None:
        store = SqliteStore(place)
        server = make(
            SqliteStore(place, clock=lambda: begun), str(mark), ends=True
        )  # no lease runs out to it
        async with server.running():
            await until(lambda: effects(mark) == ["idempotent", "once", "paid", "resumed"])
            while len(await store.scan("task-holders")) < 2:  # it, and the one here
                await turns(1)
            assert (await Peer(server, capabilities=TASKS).result("tasks/get", taskId=ids[0]))[
                "status"
            ] == "working"
            child.kill()
            child.wait()
            assert (await reaches(Peer(server, capabilities=TASKS), ids[0], "completed"))[
                "status"
            ] == "completed"
            assert (await reaches(Peer(server, capabilities=TASKS), ids[2], "failed"))["status"] == "failed"
        await store.close()

    try:
        run_limited(scenario())
    finally:
        child.kill()
        child.stdout.close()


@run
async def test_a_worker_that_was_thought_dead_changes_nothing_any_more(shared: Shared) -> None:
    one = Worker(shared.store())
    async with one.server.running():
        id = await begun(one.modern(), "again")
        await until(lambda: one.runs == 1)
        shared.leases_run_out()
        two = Worker(shared.store(), shared.clock)
        two.gate.set()
        async with two.server.running():
            assert (await reaches(two.modern(), id, "completed"))["status"] == "completed"
            one.gate.set()
            await until(lambda: one.runs == 1)
            task = await two.modern().result("tasks/get", taskId=id)
            assert task["result"]["content"][0]["text"] == "done by 1"


def test_a_task_of_a_newer_version_is_refused_not_guessed() -> None:
    newer, older = VersionedRecords(dict[str, int], 2), VersionedRecords(dict[str, int], 1)
    assert newer.decode(older.encode({"a": 1})) == {"a": 1}
    with pytest.raises(Exception, match="newer version"):
        older.decode(newer.encode({"a": 1}))
    for damaged in (b"", b"1", b"1 {", b"x {}", b'{"a":1}'):
        with pytest.raises(Exception, match=r"version|damaged"):
            older.decode(damaged)


@run
async def test_finished_tasks_make_room_for_new_ones_in_a_small_store() -> None:
    server = Server("yard", store=MemoryStore(60))

    @server.tool(task="required")
    async def work(number: int) -> int:
        return number

    async with Client(server) as client:
        for number in range(100):
            assert (await client.call_tool("work", {"number": number})).data == number
