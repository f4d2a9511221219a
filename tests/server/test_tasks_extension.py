"""Tools that run as tasks, as 2026-07-28 sees them: the extension ``io.modelcontextprotocol/tasks``."""

import asyncio
import json
import logging

import pytest

from dovetail import Limits, Server
from dovetail.settings import TaskOptions
from dovetail.stores.memory_store import MemoryStore
from tests.server.works import DECLARED, EXTENSION, Clock, Works, begun, reaches
from tests.support.aio import run
from tests.support.peer import EVERYTHING, Peer


@run
async def test_a_created_task_is_flat_readable_at_once_and_ends_with_the_result() -> None:
    works = Works()
    peer = works.peer()
    created = await peer.call("wait", label="a")
    assert set(created) >= {"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"}
    assert "task" not in created
    assert "requestState" not in created
    assert created["ttlMs"] == 3_600_000
    task = await reaches(peer, created["taskId"], "working")
    assert "result" not in task
    works.gate.set()
    task = await reaches(peer, created["taskId"], "completed")
    assert task["result"]["content"] == [{"type": "text", "text": "done a"}]
    assert task["resultType"] == "complete"
    assert "io.modelcontextprotocol/related-task" not in task["result"].get("_meta", {})


@run
async def test_ids_cannot_be_guessed() -> None:
    works = Works()
    peer = works.peer()
    works.gate.set()
    ids = {await begun(peer, "wait") for _ in range(20)}
    assert len({id[-32:] for id in ids}) == 20
    for id in ids:
        await reaches(peer, id, "completed")


@run
async def test_a_tool_error_is_a_completed_task_and_a_protocol_error_a_failed_one() -> None:
    peer = Works().peer()
    task = await reaches(peer, await begun(peer, "fail"), "completed", "failed")
    assert task["status"] == "completed"
    assert task["result"]["isError"] is True
    task = await reaches(peer, await begun(peer, "crash"), "completed", "failed")
    assert task["status"] == "failed"
    assert task["error"]["code"] == -32603
    assert "result" not in task


@run
async def test_arguments_that_do_not_fit_end_the_task_with_an_error_result() -> None:
    peer = Works().peer()
    task = await reaches(peer, await begun(peer, "wait", label=3), "completed")
    assert task["result"]["isError"] is True


@run
async def test_clients_without_the_task_capability_get_a_direct_result_or_an_error_that_names_it() -> None:
    works = Works()
    works.gate.set()
    peer = works.peer(capabilities=EVERYTHING)
    assert await peer.text("wait", label="b") == "done b"
    error = await peer.error("tools/call", name="fail", arguments={})
    assert error["code"] == -32021
    assert error["data"]["requiredCapabilities"] == {"extensions": {EXTENSION: {}}}
    for method in ("tasks/get", "tasks/cancel"):
        assert (await peer.error(method, taskId="x"))["code"] == -32021
    assert (await peer.error("tasks/update", taskId="x", inputResponses={}))["code"] == -32021


@run
async def test_methods_of_the_older_design_do_not_exist() -> None:
    peer = Works().peer()
    assert (await peer.error("tasks/result", taskId="x"))["code"] == -32601
    assert (await peer.error("tasks/list"))["code"] == -32601


@run
async def test_a_tool_without_task_support_never_becomes_one() -> None:
    peer = Works().peer()
    result = await peer.result("tools/call", name="plain", arguments={}, task={"ttl": 60000})
    assert result["content"][0]["text"] == "plain"


@run
async def test_the_extension_is_declared_only_by_servers_that_have_a_task_tool() -> None:
    server = Server("none")

    @server.tool
    def plain() -> str:
        """No task."""
        return "plain"

    peer = Peer(server, capabilities=DECLARED)
    assert "extensions" not in (await peer.result("server/discover"))["capabilities"]
    assert (await peer.error("tasks/get", taskId="x"))["code"] == -32601
    capabilities = (await Works().peer().result("server/discover"))["capabilities"]
    assert capabilities["extensions"] == {EXTENSION: {}}
    assert "tasks" not in capabilities


@run
async def test_cancelling_stops_the_work_and_may_be_repeated() -> None:
    works = Works()
    peer = works.peer()
    id = await begun(peer, "wait")
    await works.reached.wait()
    for _ in range(2):
        ack = await peer.result("tasks/cancel", taskId=id)
        assert not {"taskId", "status"} & set(ack)
        assert (await peer.result("tasks/get", taskId=id))["status"] == "cancelled"
    await works.cancelled.wait()
    assert (await peer.error("tasks/cancel", taskId="unknown"))["code"] == -32602


@run
async def test_a_task_belongs_to_its_principal() -> None:
    works = Works()
    mine, other, nobody = works.peer(principal="me"), works.peer(principal="you"), works.peer()
    id = await begun(mine, "wait")
    for peer in (other, nobody):
        for method in ("tasks/get", "tasks/cancel"):
            assert (await peer.error(method, taskId=id))["code"] == -32602
        assert (await peer.error("tasks/update", taskId=id, inputResponses={}))["code"] == -32602
    works.gate.set()
    await reaches(mine, id, "completed")
    assert (await other.error("tasks/get", taskId=id))["code"] == -32602


@run
async def test_a_task_is_forgotten_when_its_time_is_over_and_not_sooner() -> None:
    clock = Clock()
    works = Works(clock=clock, tasks=TaskOptions(ttl=60))
    peer = works.peer()
    works.gate.set()
    id = await begun(peer, "wait")
    await reaches(peer, id, "completed")
    clock.now += 59.9
    assert (await peer.result("tasks/get", taskId=id))["ttlMs"] == 60_000
    clock.now += 0.2
    assert (await peer.error("tasks/get", taskId=id))["code"] == -32602


@run
async def test_work_that_takes_too_long_fails() -> None:
    works = Works(tasks=TaskOptions(timeout=0.01))
    peer = works.peer()
    id = await begun(peer, "wait")
    await works.cancelled.wait()
    task = await reaches(peer, id, "failed")
    assert task["error"]["data"]["kind"] == "task_timeout"


@run
async def test_more_tasks_than_the_limit_are_refused_until_one_has_ended() -> None:
    works = Works(limits=Limits(max_tasks=2))
    peer = works.peer()
    ids = [await begun(peer, "wait") for _ in range(2)]
    error = await peer.error("tools/call", name="wait", arguments={})
    assert (error["code"], error["data"]["kind"]) == (1004, "too_many_tasks")
    works.gate.set()
    for id in ids:
        await reaches(peer, id, "completed")
    for _ in range(5):
        await asyncio.sleep(0)  # the work leaves its place a turn after its end was notified
    # What ended first is forgotten first, and only as much as is needed.
    await reaches(peer, await begun(peer, "wait"), "completed")
    assert (await peer.error("tasks/get", taskId=ids[0]))["data"]["kind"] == "task_not_found"
    await reaches(peer, ids[1], "completed")


@run
async def test_a_principal_that_begins_ever_more_tasks_loses_its_own_finished_ones_first() -> None:
    works = Works(limits=Limits(max_tasks=4))
    greedy, other = works.peer(principal="greedy"), works.peer(principal="other")
    kept = await begun(other, "wait")
    held = [await begun(greedy, "wait") for _ in range(3)]
    error = await greedy.error("tools/call", name="wait", arguments={})
    assert error["data"]["kind"] == "too_many_tasks"
    works.gate.set()
    for id in held:
        await reaches(greedy, id, "completed")
    await reaches(other, kept, "completed")
    for _ in range(6):
        await reaches(greedy, await begun(greedy, "wait"), "completed")
    await reaches(other, kept, "completed")


@run
async def test_tasks_of_sessions_without_a_principal_share_one_limit() -> None:
    works = Works(limits=Limits(max_tasks=4))
    peers = [Peer(works.server, "2025-11-25") for _ in range(2)]
    call = {"name": "wait", "arguments": {}, "task": {}}
    for number in range(4):
        await peers[number % 2].result("tools/call", **call)
    for peer in peers:
        assert (await peer.error("tools/call", **call))["data"]["kind"] == "too_many_tasks"
    works.gate.set()


@run
async def test_stopping_the_server_ends_the_work() -> None:
    works = Works()
    peer = works.peer()
    id = await begun(peer, "wait")
    await works.reached.wait()
    await works.server.lifecycle.stop()
    assert works.cancelled.is_set()
    assert (await peer.result("tasks/get", taskId=id))["status"] == "failed"


@run
async def test_what_a_store_keeps_another_server_can_read() -> None:
    store = MemoryStore()
    works = Works(store=store)
    mine = works.peer(principal="me")
    works.gate.set()
    id = await begun(mine, "wait")
    await reaches(mine, id, "completed")
    elsewhere = Works(store=store)
    task = await elsewhere.peer(principal="me").result("tasks/get", taskId=id)
    assert task["result"]["content"][0]["text"] == "done x"
    await works.server.lifecycle.stop()
    await elsewhere.server.lifecycle.stop()


@run
async def test_an_unexpected_exception_is_masked(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("broken")

    @server.tool(task="optional")
    async def broken() -> str:
        """Break."""
        raise RuntimeError("a secret")

    peer = Peer(server, capabilities=DECLARED)
    with caplog.at_level(logging.CRITICAL):
        task = await reaches(peer, await begun(peer, "broken"), "completed", "failed")
    assert task["result"]["isError"] is True
    assert "secret" not in json.dumps(task)


@run
async def test_a_result_that_does_not_fit_into_the_store_fails_its_task(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("large", store=MemoryStore(max_bytes=2000))

    @server.tool(task="optional")
    async def large() -> str:
        """Return a lot."""
        return "x" * 3000

    peer = Peer(server, capabilities=DECLARED)
    task = await reaches(peer, await begun(peer, "large"), "completed", "failed")
    assert task["status"] == "failed"
    assert task["error"]["data"]["kind"] == "tool_result_too_large"
    await server.lifecycle.stop()
