"""Task options of clients: ids, dependencies, progress, reasons and limits."""

import asyncio
from typing import Any

import pytest

from dovetail import CapabilityError, Client, Context, ProtocolError, Server, ToolError
from dovetail.settings import Limits, TaskOptions
from dovetail.stores import MemoryStore
from tests.support.aio import run
from tests.support.peer import Peer
from tests.support.waiting import until

from .test_tasks_core import Erl, ends

R4, R5 = "2025-11-25", "2026-07-28"
DESIGNS = [("official", R4), ("official", R5), ("erlmcp", R4)]


class Yard:
    """A server whose work waits at a gate."""

    def __init__(self, dialect: str = "official", **options: Any) -> None:
        self.gate = asyncio.Event()
        self.reached = asyncio.Event()
        self.ran: list[str] = []
        self.server = server = Server("yard", dialect=dialect, **options)

        @server.tool(task="required" if dialect == "official" else "optional")
        async def work(label: str, ctx: Context) -> str:
            """Work until the gate opens."""
            self.ran.append(label)
            await ctx.report_progress(1, 4, "a quarter")
            self.reached.set()
            await self.gate.wait()
            return label

        @server.tool(task="required" if dialect == "official" else "optional")
        async def fail() -> str:
            """Fail."""
            raise ToolError("no luck")


@pytest.mark.parametrize(("dialect", "revision"), DESIGNS)
@run
async def test_a_task_is_created_listed_found_and_cancelled_for_a_reason_in_every_design(
    dialect: str, revision: str
) -> None:
    yard = Yard(dialect)
    heard: list[Any] = []
    async with Client(yard.server, revision=revision, dialect=dialect, on_task=heard.append) as client:
        handle = await client.create_task("work", {"label": "a"})
        await yard.reached.wait()
        assert [task.task_id for task in await client.list_tasks()] == [handle.id]
        same = client.task(str(handle.id))
        assert await same.status() == "working"
        assert (same.progress, same.total) == (1, 4)
        await handle.cancel("changed my mind")
        assert await same.status() == "cancelled"
        await until(lambda: bool(heard) and heard[-1].status == "cancelled")
        assert {task.task_id for task in heard} == {handle.id}
        with pytest.raises(ProtocolError) as caught:
            await client.task(str(handle.id)).result()
        assert caught.value.kind == "task_cancelled"
        if revision == R5:
            assert same.reason == "changed my mind"
        else:
            assert caught.value.data["reason"] == "changed my mind"


@pytest.mark.parametrize(("dialect", "revision"), DESIGNS)
@run
async def test_a_result_that_did_not_come_in_time_is_said_to_be_late(dialect: str, revision: str) -> None:
    yard = Yard(dialect, tasks=TaskOptions(timeout=0.05))
    async with Client(yard.server, revision=revision, dialect=dialect) as client:
        handle = await client.create_task("work", {"label": "a"})
        with pytest.raises(ProtocolError) as caught:
            await handle.result()
        assert caught.value.code == (-32085 if dialect == "erlmcp" else -32603)
        assert "task_timeout" in (caught.value.kind, caught.value.data["kind"])


@run
async def test_erlmcp_shows_metadata_expiry_timeout_progress_and_why_it_was_cancelled() -> None:
    yard = Yard("erlmcp")
    peer = Erl(yard.server, R4)
    metadata = {"timeout": 60_000, "colour": "red"}
    id = (await peer.result("tasks/create", action=action("a"), metadata=metadata))["taskId"]
    await yard.reached.wait()
    task = (await peer.result("tasks/get", taskId=id))["task"]
    assert (task["metadata"], task["timeoutMs"]) == (metadata, 60_000)
    assert (task["progress"], task["total"]) == (1, 4)
    assert task["expiresAt"] == task["createdAt"] + 3_600_000
    assert await peer.result("tasks/cancel", taskId=id, reason="enough") == {}
    error = (await peer.result("tasks/get", taskId=id))["task"]["error"]
    assert (error["code"], error["data"]["reason"]) == (-32084, "enough")
    late = await peer.error("tasks/result", taskId=id)
    assert (late["code"], late["data"]["reason"]) == (-32084, "enough")
    async with Client(yard.server, revision=R4, dialect="erlmcp") as client:
        handle = await client.create_task("work", {"label": "b"}, ttl=30_000)
        await handle.status()
        assert handle.task is not None
        assert handle.task.ttl == 3_600_000
        assert handle.metadata == {"timeout": 30_000}


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
@run
async def test_what_tasks_create_made_is_found_on_every_revision_that_erlmcp_has_it_on(revision: str) -> None:
    yard = Yard("erlmcp")
    peer = Erl(yard.server, revision)
    id = (await peer.result("tasks/create", action=action("a")))["taskId"]
    await yard.reached.wait()
    assert (await peer.result("tasks/get", taskId=id))["task"]["status"] == "processing"
    yard.gate.set()
    assert (await ends(peer, id))["status"] == "completed"
    assert (await peer.result("tasks/result", taskId=id))["result"]["content"]
    assert (await peer.error("tasks/cancel", taskId=id))["data"]["kind"] == "task_already_completed"


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("principal", [None, "ann"])
@run
async def test_a_client_may_name_its_task_and_no_two_the_same(principal: str | None, durable: bool) -> None:
    yard = Yard("erlmcp", store=MemoryStore() if durable else None)
    async with yard.server.running():
        peer = Erl(yard.server, R4, principal=principal)
        assert await peer.result("tasks/create", action=action("a"), taskId="mine/1") == {"taskId": "mine/1"}
        assert (await peer.error("tasks/create", action=action("b"), taskId="mine/1"))["code"] == -32082
        yard.gate.set()
        assert (await ends(peer, "mine/1"))["taskId"] == "mine/1"
        assert [task["taskId"] for task in (await peer.result("tasks/list"))["tasks"]] == ["mine/1"]
        for bad in ("", "ä", "x" * 129, "0" * 43):
            assert (await peer.error("tasks/create", action=action("b"), taskId=bad))["code"] == -32602
        # Another one's names are neither seen nor taken.
        other = Erl(yard.server, R4, principal=None if principal is None else "bob")
        assert (await other.error("tasks/get", taskId="mine/1"))["code"] == -32081
        assert await other.result("tasks/create", action=action("c"), taskId="mine/1") == {"taskId": "mine/1"}


def action(label: str) -> dict[str, Any]:
    return {"type": "work", "parameters": {"label": label}}


@run
async def test_a_task_begins_when_those_it_depends_on_are_completed() -> None:
    yard = Yard("erlmcp")
    async with Client(yard.server, revision=R4, dialect="erlmcp") as client:
        first = await client.create_task("work", {"label": "first"}, task_id="first")
        second = await client.create_task("work", {"label": "second"}, depends_on=["first"])
        await yard.reached.wait()
        assert yard.ran == ["first"]
        yard.gate.set()
        assert (await second.result()).text == "second"
        assert (await first.result()).text == "first"
        assert yard.ran == ["first", "second"]


@run
async def test_a_task_whose_dependency_fails_is_cancelled_or_unknown_fails_with_it() -> None:
    yard = Yard("erlmcp")
    async with Client(yard.server, revision=R4, dialect="erlmcp") as client:
        failing = await client.create_task("fail")
        for other in (failing, await client.create_task("work", {"label": "a"})):
            after = await client.create_task("work", {"label": "never"}, depends_on=[str(other.id)])
            await other.cancel() if other is not failing else None
            with pytest.raises(ProtocolError) as caught:
                await after.result()
            assert (caught.value.kind, caught.value.code) == ("task_dependency_failed", -32088)
        with pytest.raises(ProtocolError) as caught:
            await client.create_task("work", {"label": "never"}, depends_on=["nothing"])
        assert caught.value.code == -32088
        with pytest.raises(ProtocolError) as caught:
            await client.create_task("work", {"label": "never"}, depends_on=["x"] * 33)
        assert caught.value.kind == "invalid_params"
        assert "never" not in yard.ran


@pytest.mark.parametrize("revision", [R4, R5])
@run
async def test_what_a_design_cannot_say_is_not_sent(revision: str) -> None:
    yard = Yard()
    async with Client(yard.server, revision=revision) as client:
        with pytest.raises(CapabilityError):
            await client.create_task("work", {"label": "a"}, task_id="mine")
        with pytest.raises(CapabilityError):
            await client.create_task("work", {"label": "a"}, depends_on=["other"])
    assert yard.ran == []


class Counting(MemoryStore):
    """Counts the values that scans read."""

    read = 0

    async def scan(self, *args: Any, **options: Any) -> list[tuple[str, bytes]]:
        found = await super().scan(*args, **options)
        self.read += len(found)
        return found


@run
async def test_counting_a_principal_s_tasks_looks_at_none_of_them() -> None:
    store = Counting()
    yard = Yard(store=store, limits=Limits(max_tasks=200))
    async with yard.server.running():
        peer = Peer(yard.server, R4, principal="ann")
        for number in range(20):
            await peer.result("tools/call", name="work", arguments={"label": str(number)}, task={})
        # A look for the tasks of dead workers may come in between; a count at each start would read 190.
        assert store.read <= 40


@run
async def test_the_last_places_of_a_principal_are_found_and_no_more() -> None:
    yard = Yard(store=MemoryStore(), limits=Limits(max_tasks=20))
    async with yard.server.running():
        peer = Peer(yard.server, R4, principal="ann")
        ask = {"name": "work", "arguments": {"label": "x"}, "task": {}}
        begun = [(await peer.result("tools/call", **ask))["task"]["taskId"] for _ in range(20)]
        assert (await peer.error("tools/call", **ask))["data"]["kind"] == "too_many_tasks"
        yard.gate.set()
        for id in begun:
            await peer.result("tasks/result", taskId=id)
        # A result is there a moment before its worker has given its lease back.
        reply: dict[str, Any] = {}
        while "result" not in reply:
            reply = await peer.ask("tools/call", **ask)
        assert reply["result"]["task"]["status"] == "working"
