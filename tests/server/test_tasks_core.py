"""Tools that run as tasks for older peers: the core of 2025-11-25, and erlmcp's ``tasks/create``."""

import asyncio
import json
import logging
from typing import Any

import pytest

from dovetail import Context, Elicit, Server, ToolError
from dovetail.errors import ProtocolError, TransportError
from dovetail.settings import TaskOptions
from dovetail.stores.memory_store import MemoryStore
from tests.drivers.parrot import connected
from tests.support.aio import run
from tests.support.peer import Peer
from tests.support.waiting import HANG

from .works import Name, Works, accepted, reaches

R4 = "2025-11-25"
RELATED = "io.modelcontextprotocol/related-task"


async def begun(peer: Peer, tool: str, task: dict[str, Any] | None = None, **arguments: Any) -> str:
    result = await peer.result("tools/call", name=tool, arguments=arguments, task=task or {})
    assert set(result) == {"task"}
    return result["task"]["taskId"]


# --- 2025-11-25 -------------------------------------------------------------------------------------------


@run
async def test_the_capability_and_the_support_of_each_tool_are_declared() -> None:
    works = Works()
    result = await Peer(works.server, R4).result("tools/list")
    support = {tool["name"]: tool.get("execution") for tool in result["tools"]}
    assert support["fail"] == {"taskSupport": "required"}
    assert support["wait"] == {"taskSupport": "optional"}
    assert support["plain"] is None
    declared = works.server.dispatcher.capabilities["tasks"]
    assert declared == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}


@run
async def test_a_client_that_asks_for_a_task_gets_one_and_its_result_waits() -> None:
    works = Works()
    peer = Peer(works.server, R4)
    created = (await peer.result("tools/call", name="wait", arguments={}, task={"ttl": 5000}))["task"]
    assert created["status"] == "working"
    assert created["ttl"] == 5000
    waiting = asyncio.create_task(peer.result("tasks/result", taskId=created["taskId"]))
    await works.reached.wait()
    await asyncio.sleep(0)
    assert not waiting.done()
    works.gate.set()
    result = await waiting
    assert result["content"] == [{"type": "text", "text": "done x"}]
    assert result["_meta"][RELATED] == {"taskId": created["taskId"]}
    assert (await peer.result("tasks/get", taskId=created["taskId"]))["status"] == "completed"
    assert await peer.result("tasks/result", taskId=created["taskId"]) == result


@run
async def test_without_the_wish_for_a_task_the_answer_comes_at_once() -> None:
    works = Works()
    works.gate.set()
    assert await Peer(works.server, R4).text("wait") == "done x"


@run
async def test_tool_and_client_have_to_agree() -> None:
    peer = Peer(Works().server, R4)
    assert (await peer.error("tools/call", name="plain", arguments={}, task={}))["code"] == -32601
    assert (await peer.error("tools/call", name="fail", arguments={}))["code"] == -32601


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
def test_older_clients_get_their_answer_at_once(revision: str) -> None:
    @run
    async def scenario() -> None:
        works = Works()
        works.gate.set()
        peer = Peer(works.server, revision, capabilities={})
        assert await peer.text("wait") == "done x"
        assert (await peer.call("fail"))["isError"] is True
        assert (await peer.error("tasks/get", taskId="x"))["code"] == -32601

    scenario()


@run
async def test_a_tool_error_is_a_failed_task_whose_result_is_the_tool_s() -> None:
    peer = Peer(Works().server, R4)
    id = await begun(peer, "fail")
    result = await peer.result("tasks/result", taskId=id)
    assert result["isError"] is True
    assert (await peer.result("tasks/get", taskId=id))["status"] == "failed"


@run
async def test_a_protocol_error_comes_out_of_tasks_result_as_it_was() -> None:
    peer = Peer(Works().server, R4)
    id = await begun(peer, "crash")
    error = await peer.error("tasks/result", taskId=id)
    assert (error["code"], error["message"]) == (-32603, "out of order")


class Breaking(MemoryStore):
    """A store that stops working."""

    broken = False

    async def put(self, key: str, value: bytes, **options: Any) -> bool:
        if self.broken:
            raise OSError("the secret disk is gone")
        return await super().put(key, value, **options)


@pytest.mark.parametrize("tool", ["wait", "crash_late"])
def test_a_store_that_breaks_does_not_leave_a_waiting_client_without_an_answer(
    tool: str, caplog: pytest.LogCaptureFixture
) -> None:
    @run
    async def scenario() -> None:
        store = Breaking()
        works = Works(store=store)

        @works.server.tool(task="optional")
        async def crash_late() -> str:
            """Fail once the gate is open."""
            works.reached.set()
            await works.gate.wait()
            raise ProtocolError("internal_error", "out of order")

        peer = Peer(works.server, R4)
        id = await begun(peer, tool)
        waiting = asyncio.create_task(peer.error("tasks/result", taskId=id))
        await works.reached.wait()
        await asyncio.sleep(0)
        store.broken = True
        with caplog.at_level(logging.ERROR):
            works.gate.set()
            error = await asyncio.wait_for(waiting, HANG)
        assert error["code"] == -32603
        assert "secret" not in json.dumps(error)
        assert "incident" in caplog.text
        assert "the secret disk is gone" in caplog.text
        await works.server.lifecycle.stop()

    scenario()


@run
async def test_a_store_that_breaks_does_not_keep_an_input_request_from_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Breaking()
    works = Works(store=store)

    @works.server.tool(task="optional")
    async def greet(ctx: Context) -> str:
        """Ask while nothing can be stored."""
        store.broken = True
        answer = await ctx.elicit("Who?", Name)
        store.broken = False
        return f"Hello, {answer.data and answer.data.name}!"

    peer = Peer(works.server, R4, answer=lambda method, params: accepted("Ann"))
    with caplog.at_level(logging.ERROR):
        result = await peer.result("tasks/result", taskId=await begun(peer, "greet"))
    assert result["content"][0]["text"] == "Hello, Ann!"
    await works.server.lifecycle.stop()


@run
async def test_input_requests_travel_on_the_stream_of_tasks_result() -> None:
    works = Works()
    peer = Peer(works.server, R4, answer=lambda method, params: accepted("Ann"))
    id = await begun(peer, "confirm")
    await reaches(peer, id, "input_required")
    assert peer.questions == []
    result = await peer.result("tasks/result", taskId=id)
    assert result["content"][0]["text"] == "Hello, Ann!"
    assert peer.questions[0]["params"]["_meta"][RELATED] == {"taskId": id}


@run
async def test_a_client_error_on_an_input_request_is_raised_in_the_handler() -> None:
    works = Works()
    failures: list[str] = []

    @works.server.tool(task="optional")
    async def careful(ctx: Context) -> str:
        """Ask, and go on without an answer."""
        try:
            await ctx.elicit("Who?", Name)
        except ProtocolError as error:
            failures.append(error.message)
        return "went on"

    peer = Peer(works.server, R4, answer=lambda method, params: {"error": {"code": -1, "message": "no"}})
    result = await peer.result("tasks/result", taskId=await begun(peer, "careful"))
    assert result["content"][0]["text"] == "went on"
    assert failures == ["no"]


@run
async def test_an_input_request_whose_stream_broke_goes_out_on_the_next() -> None:
    works = Works()
    peer = Peer(works.server, R4, answer=lambda method, params: accepted("Ann"))
    id = await begun(peer, "confirm")
    await reaches(peer, id, "input_required")
    whole = peer.request

    async def broken(method: str, params: Any) -> Any:
        raise TransportError("gone", cause="reset")

    peer.request = broken  # type: ignore[method-assign]
    await peer.error("tasks/result", taskId=id)
    peer.request = whole  # type: ignore[method-assign]
    assert (await peer.result("tasks/get", taskId=id))["status"] == "input_required"
    assert (await peer.result("tasks/result", taskId=id))["content"][0]["text"] == "Hello, Ann!"


@run
async def test_a_client_that_stops_waiting_for_a_result_does_not_stop_the_task() -> None:
    works = Works()
    peer = Peer(works.server, R4)
    id = await begun(peer, "wait")
    waiting = asyncio.create_task(peer.result("tasks/result", taskId=id))
    await works.reached.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    works.gate.set()
    await reaches(peer, id, "completed")


@run
async def test_a_cancelled_task_reports_its_status_and_has_an_error_as_result() -> None:
    works = Works()
    peer = Peer(works.server, R4)
    id = await begun(peer, "wait")
    waiting = asyncio.create_task(peer.error("tasks/result", taskId=id))
    await works.reached.wait()
    assert (await peer.result("tasks/cancel", taskId=id))["status"] == "cancelled"
    assert (await waiting)["data"]["kind"] == "task_cancelled"
    await works.cancelled.wait()
    assert (await peer.error("tasks/cancel", taskId=id))["code"] == -32602


@run
async def test_the_session_is_notified_of_every_change() -> None:
    works = Works()
    peer = Peer(works.server, R4, answer=lambda method, params: accepted("Ann"))
    id = await begun(peer, "confirm")
    await peer.result("tasks/result", taskId=id)
    told = [note["params"] for note in peer.notes if note["method"] == "notifications/tasks/status"]
    assert [task["status"] for task in told] == ["input_required", "working", "completed"]
    assert {task["taskId"] for task in told} == {id}


@run
async def test_progress_and_logs_of_a_task_name_it() -> None:
    works = Works()
    works.gate.set()
    peer = Peer(works.server, R4)
    peer.meta = {"progressToken": "p"}
    id = await begun(peer, "report")
    await peer.result("tasks/result", taskId=id)
    notes = {note["method"]: note["params"] for note in peer.notes}
    assert notes["notifications/progress"]["progressToken"] == "p"
    for method in ("notifications/progress", "notifications/message"):
        assert notes[method]["_meta"][RELATED] == {"taskId": id}


@run
async def test_progress_without_a_token_is_not_sent() -> None:
    works = Works()
    works.gate.set()
    peer = Peer(works.server, R4)
    await peer.result("tasks/result", taskId=await begun(peer, "report"))
    assert "notifications/progress" not in [note["method"] for note in peer.notes]


@run
async def test_a_time_to_live_is_kept_within_bounds() -> None:
    works = Works(tasks=TaskOptions(ttl=10, max_ttl=20))
    works.gate.set()
    peer = Peer(works.server, R4)
    for wish, kept in ((None, 10_000), (15_000, 15_000), (60_000, 20_000), (-5, 1000)):
        task = {} if wish is None else {"ttl": wish}
        created = await peer.result("tools/call", name="wait", arguments={}, task=task)
        assert created["task"]["ttl"] == kept
        await reaches(peer, created["task"]["taskId"], "completed")


@run
async def test_a_list_shows_a_principal_its_own_tasks_page_by_page() -> None:
    works = Works(page_size=2)
    works.gate.set()
    mine = Peer(works.server, R4, principal="me")
    other = Peer(works.server, R4, principal="you")
    ids = [await begun(mine, "wait") for _ in range(5)]
    await begun(other, "wait")
    for id in ids:
        await reaches(mine, id, "completed")
    found: list[str] = []
    page: dict[str, Any] = await Peer(works.server, R4, principal="me").result("tasks/list")
    found += [task["taskId"] for task in page["tasks"]]
    while "nextCursor" in page:
        assert len(page["tasks"]) == 2
        page = await mine.result("tasks/list", cursor=page["nextCursor"])
        found += [task["taskId"] for task in page["tasks"]]
    assert sorted(found) == sorted(ids)
    assert (await other.error("tasks/list", cursor="forged"))["code"] == -32602


@run
async def test_without_a_principal_a_list_shows_the_tasks_of_the_session() -> None:
    works = Works()
    works.gate.set()
    mine, other = Peer(works.server, R4), Peer(works.server, R4)
    id = await begun(mine, "wait")
    await reaches(mine, id, "completed")
    assert [task["taskId"] for task in (await mine.result("tasks/list"))["tasks"]] == [id]
    assert (await other.result("tasks/list"))["tasks"] == []


@run
async def test_tasks_of_one_design_are_not_there_for_the_other() -> None:
    works = Works()
    works.gate.set()
    peer = Peer(works.server, R4)
    id = await begun(peer, "wait")
    assert (await works.peer().error("tasks/get", taskId=id))["code"] == -32602
    await reaches(peer, id, "completed")


@run
async def test_over_a_connection_everything_goes_the_same_way() -> None:
    works = Works()
    client, duplex = await connected(
        works.server, R4, answers={"elicitation/create": lambda params: accepted("Ann")}
    )
    created = await client.request("tools/call", {"name": "confirm", "arguments": {}, "task": {}})
    id = created["task"]["taskId"]
    assert (await client.notification("notifications/tasks/status"))["status"] == "input_required"
    result = await client.request("tasks/result", {"taskId": id})
    assert result["content"][0]["text"] == "Hello, Ann!"
    assert client.questions[0]["params"]["_meta"][RELATED] == {"taskId": id}
    await client.close()
    await duplex.wait_closed()


@run
async def test_a_task_outlives_the_connection_that_began_it() -> None:
    works = Works()
    client, duplex = await connected(works.server, R4)
    created = await client.request("tools/call", {"name": "wait", "arguments": {}, "task": {}})
    await works.reached.wait()
    await client.close()
    await duplex.wait_closed()
    works.gate.set()
    client, duplex = await connected(works.server, R4)
    result = await client.request("tasks/result", {"taskId": created["task"]["taskId"]})
    assert result["content"][0]["text"] == "done x"
    await client.close()
    await duplex.wait_closed()


# --- erlmcp -----------------------------------------------------------------------------------------------


def erlang() -> tuple[Server, asyncio.Event, asyncio.Event]:
    server = Server("erl", dialect="erlmcp")
    gate, stopped = asyncio.Event(), asyncio.Event()

    @server.tool
    async def work(n: int) -> str:
        """Work."""
        try:
            await gate.wait()
        except asyncio.CancelledError:
            stopped.set()
            raise
        if n < 0:
            raise ToolError("negative")
        return f"worked {n}"

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask."""
        (answer,) = await ctx.ask_all(Elicit("Who?", Name))
        return f"Hello, {answer.data and answer.data.name}!"

    return server, gate, stopped


async def created(peer: Peer, tool: str, metadata: dict[str, Any] | None = None, **parameters: Any) -> str:
    action = {"type": tool, "parameters": parameters}
    more = {} if metadata is None else {"metadata": metadata}
    result = await peer.result("tasks/create", action=action, **more)
    assert set(result) == {"taskId"}
    return result["taskId"]


async def ends(peer: Peer, id: str) -> dict[str, Any]:
    for _ in range(500):
        task = (await peer.result("tasks/get", taskId=id))["task"]
        if task["status"] not in ("pending", "processing"):
            return task
        await asyncio.sleep(0)
    raise AssertionError("the task does not end")


class Erl(Peer):
    """A peer whose messages no official schema describes."""

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        return json.loads(await self._exchange(json.dumps(message).encode()))

    def _take(self, data: bytes) -> None:
        self.notes.append(json.loads(data))


@run
async def test_erlmcp_creates_any_tool_as_a_task_and_fetches_its_result() -> None:
    server, gate, _ = erlang()
    peer = Erl(server, R4)
    id = await created(peer, "work", n=2)
    error = await peer.error("tasks/result", taskId=id)
    assert error["code"] == -32089
    gate.set()
    task = await ends(peer, id)
    assert task["status"] == "completed"
    assert task["action"] == {"type": "work", "parameters": {"n": 2}}
    assert isinstance(task["createdAt"], int)
    result = await peer.result("tasks/result", taskId=id)
    assert result["result"]["content"][0]["text"] == "worked 2"
    assert [task["taskId"] for task in (await peer.result("tasks/list"))["tasks"]] == [id]
    assert peer.notes[-1]["params"]["status"] == "completed"


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
def test_erlmcp_s_tasks_tell_their_status_on_older_revisions_too(revision: str) -> None:
    @run
    async def scenario() -> None:
        server, gate, _ = erlang()
        gate.set()
        peer = Erl(server, revision)
        id = await created(peer, "work", n=2)
        assert (await ends(peer, id))["status"] == "completed"
        told = [note["params"] for note in peer.notes if note["method"] == "notifications/tasks/status"]
        assert [(task["taskId"], task["status"]) for task in told] == [(id, "processing"), (id, "completed")]
        declared = server.dispatcher.admission.methods.advertised(peer.codec)
        assert declared.experimental == {"features": ["task_management"]}

    scenario()


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
def test_no_task_is_created_if_its_caller_could_not_fetch_it(revision: str) -> None:
    @run
    async def scenario() -> None:
        peer = Erl(Works().server, revision)
        assert (await peer.error("tasks/create", action={"type": "wait"}))["code"] == -32601

    scenario()


@run
async def test_an_official_client_has_no_tasks_create() -> None:
    works = Works()
    error = await Peer(works.server, R4).error("tasks/create", action={"type": "wait", "parameters": {}})
    assert (error["code"], works.reached.is_set()) == (-32601, False)


@run
async def test_erlmcp_s_list_of_tasks_honours_the_limit() -> None:
    server, gate, _ = erlang()
    peer = Erl(server, R4)
    ids = [await created(peer, "work", n=n) for n in range(5)]
    found: list[str] = []
    page = await peer.result("tasks/list", limit=2)
    assert len(page["tasks"]) == 2
    found += [task["taskId"] for task in page["tasks"]]
    while "nextCursor" in page:
        page = await peer.result("tasks/list", limit=2, cursor=page["nextCursor"])
        assert len(page["tasks"]) <= 2
        found += [task["taskId"] for task in page["tasks"]]
    assert sorted(found) == sorted(ids)
    assert (await peer.error("tasks/list", limit=0))["code"] == -32075
    assert (await peer.error("tasks/list", limit=101))["code"] == -32074
    long = {"progressToken": "x" * 1025}
    assert (await peer.error("tasks/create", action={"type": "work"}, metadata=long))["code"] == -32602
    gate.set()


@run
async def test_erlmcp_s_failed_and_cancelled_tasks_have_their_own_codes() -> None:
    server, gate, _ = erlang()
    peer = Erl(server, R4)
    id = await created(peer, "work", n=1)
    assert await peer.result("tasks/cancel", taskId=id, reason="enough") == {}
    assert (await peer.error("tasks/result", taskId=id))["code"] == -32084
    assert (await peer.error("tasks/cancel", taskId=id))["code"] == -32090
    gate.set()
    id = await created(peer, "work", n=-1)
    assert (await ends(peer, id))["status"] == "failed"
    failed = await peer.error("tasks/result", taskId=id)
    assert failed["code"] == -32083
    assert (
        failed["data"]["reason"]
        == (await peer.result("tasks/get", taskId=id))["task"]["error"]["data"]["reason"]
    )
    assert (await peer.error("tasks/get", taskId="unknown"))["code"] == -32081
    assert (await peer.error("tasks/create", action={"type": "nothing"}))["code"] == -32002


@run
async def test_erlmcp_s_timeout_is_kept() -> None:
    server, _, stopped = erlang()
    peer = Erl(server, R4)
    id = await created(peer, "work", {"timeout": 5}, n=1)
    await stopped.wait()
    task = await ends(peer, id)
    assert task["status"] == "failed"
    assert task["error"]["code"] == -32085
    assert (await peer.error("tasks/result", taskId=id))["code"] == -32085
    assert (await peer.error("tasks/create", action={"type": "work"}, metadata={"timeout": 0}))[
        "code"
    ] == -32602


@run
async def test_erlmcp_s_tasks_ask_on_the_connection() -> None:
    server, _, _ = erlang()
    peer = Erl(server, R4, answer=lambda method, params: accepted("Ann"))
    id = await created(peer, "ask")
    task = await ends(peer, id)
    assert task["result"]["content"][0]["text"] == "Hello, Ann!"
