"""Tools that run as tasks, as 2026-07-28 sees them: the extension ``io.modelcontextprotocol/tasks``."""

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import Any

import pytest

from dovetail import Context, Elicit, InputRequired, Limits, ProtocolError, Server, ToolError
from dovetail.settings import TaskOptions
from dovetail.stores.memory import MemoryStore
from tests.support.aio import run
from tests.support.peer import EVERYTHING, Peer

EXTENSION = "io.modelcontextprotocol/tasks"
DECLARED = {**EVERYTHING, "extensions": {EXTENSION: {}}}


@dataclass
class Name:
    name: str


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Works:
    """A server with a tool of every kind, and what happened to them."""

    def __init__(self, **options: Any) -> None:
        self.gate = asyncio.Event()
        self.reached = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.server = server = Server("works", **options)

        @server.tool(task="optional")
        async def wait(label: str = "x") -> str:
            """Wait until the gate opens."""
            self.reached.set()
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return f"done {label}"

        @server.tool(task="required")
        async def fail() -> str:
            """Fail."""
            raise ToolError("no luck")

        @server.tool(task="optional")
        async def crash() -> str:
            """Fail in another way."""
            raise ProtocolError("internal_error", "out of order")

        @server.tool(task="optional")
        async def confirm(ctx: Context) -> str:
            """Ask one thing."""
            answer = await ctx.elicit("Who?", Name, key="who")
            return f"Hello, {answer.data.name}!" if answer.action == "accept" else answer.action

        @server.tool(task="optional")
        async def both(ctx: Context) -> str:
            """Ask two things."""
            first, last = await ctx.ask_all(Elicit("First?", Name), Elicit("Last?", Name))
            return f"{first.data and first.data.name} {last.data and last.data.name}"

        @server.tool(task="optional")
        async def again(ctx: Context) -> str:
            """Ask the same thing twice."""
            names = [await ctx.elicit("Who?", Name, key="who") for _ in range(2)]
            return " ".join(answer.data.name for answer in names if answer.action == "accept")

        @server.tool(task="optional")
        async def returned(ctx: Context) -> Any:
            """Ask by returning the question."""
            if not ctx.input_responses:
                return InputRequired(requests={"who": Elicit("Who?", Name)}, state={"n": 1})
            return f"{ctx.input_responses['who']['content']['name']} {ctx.request_state['n']}"

        @server.tool(task="optional")
        async def report(ctx: Context) -> str:
            """Report on the way."""
            await ctx.report_progress(1, 2, "half way")
            await ctx.info("a log line")
            self.reached.set()
            await self.gate.wait()
            return "reported"

        @server.tool(task="optional", asks_first=True)
        async def first(ctx: Context) -> str:
            """Ask, then work."""
            self.reached.set()
            answer = await ctx.elicit("Who?", Name, key="who")
            await ctx.detach()
            await self.gate.wait()
            second = await ctx.elicit("Sure?", Name, key="sure")
            return f"{answer.data and answer.data.name} {second.data and second.data.name}"

        @server.tool(task="optional", asks_first=True)
        async def linger(ctx: Context) -> str:
            """Work before detaching."""
            self.reached.set()
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "never detached"

        @server.tool
        def plain() -> str:
            """No task."""
            return "plain"

    def peer(self, **options: Any) -> Peer:
        return Peer(self.server, **{"capabilities": DECLARED, **options})


async def reaches(peer: Peer, id: str, *statuses: str) -> dict[str, Any]:
    """The task once its status is one of ``statuses``; only turns of the loop pass."""
    for _ in range(500):
        task = await peer.result("tasks/get", taskId=id)
        if task["status"] in statuses:
            return task
        await asyncio.sleep(0)
    raise AssertionError(f"the task stays {task['status']}")


async def begun(peer: Peer, tool: str, **arguments: Any) -> str:
    created = await peer.call(tool, **arguments)
    assert created["resultType"] == "task"
    return created["taskId"]


def accepted(name: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": name}}


# --- creating and reading ---------------------------------------------------------------------------------


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
async def test_clients_that_declare_nothing_get_an_answer_at_once_or_are_told_what_to_declare() -> None:
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


# --- asking -----------------------------------------------------------------------------------------------


@run
async def test_a_question_waits_in_the_task_until_it_is_answered() -> None:
    peer = Works().peer()
    id = await begun(peer, "confirm")
    task = await reaches(peer, id, "input_required")
    assert task["inputRequests"]["who"]["method"] == "elicitation/create"
    assert "result" not in await peer.result(
        "tasks/update", taskId=id, inputResponses={"who": accepted("Ann")}
    )
    task = await reaches(peer, id, "completed")
    assert task["result"]["content"][0]["text"] == "Hello, Ann!"


@run
async def test_any_part_of_the_answers_will_do() -> None:
    peer = Works().peer()
    id = await begun(peer, "both")
    first, last = (await reaches(peer, id, "input_required"))["inputRequests"]
    await peer.result("tasks/update", taskId=id, inputResponses={last: accepted("Bly")})
    task = await reaches(peer, id, "input_required")
    assert list(task["inputRequests"]) == [first]
    await peer.result(
        "tasks/update", taskId=id, inputResponses={first: accepted("Nellie"), last: accepted("x")}
    )
    task = await reaches(peer, id, "completed")
    assert task["result"]["content"][0]["text"] == "Nellie Bly"


@run
async def test_unknown_keys_are_ignored_and_answers_that_do_not_fit_refused() -> None:
    peer = Works().peer()
    id = await begun(peer, "confirm")
    await reaches(peer, id, "input_required")
    await peer.result("tasks/update", taskId=id, inputResponses={"nobody": {"asked": True}})
    error = await peer.error("tasks/update", taskId=id, inputResponses={"who": {"action": "perhaps"}})
    assert error["code"] == -32602
    assert list((await reaches(peer, id, "input_required"))["inputRequests"]) == ["who"]
    await peer.result("tasks/cancel", taskId=id)


@run
async def test_a_key_is_never_used_twice_in_the_life_of_a_task() -> None:
    peer = Works().peer()
    id = await begun(peer, "again")
    keys = []
    for name in ("Ann", "Bea"):
        task = await reaches(peer, id, "input_required")
        keys += list(task["inputRequests"])
        await peer.result("tasks/update", taskId=id, inputResponses={keys[-1]: accepted(name)})
    assert (await reaches(peer, id, "completed"))["result"]["content"][0]["text"] == "Ann Bea"
    assert len(set(keys)) == 2


@run
async def test_a_handler_may_return_its_questions() -> None:
    peer = Works().peer()
    id = await begun(peer, "returned")
    await reaches(peer, id, "input_required")
    await peer.result("tasks/update", taskId=id, inputResponses={"who": accepted("Ann")})
    assert (await reaches(peer, id, "completed"))["result"]["content"][0]["text"] == "Ann 1"


@run
async def test_a_client_that_cannot_be_asked_ends_the_task_with_an_error() -> None:
    peer = Works().peer(capabilities={"extensions": {EXTENSION: {}}})
    task = await reaches(peer, await begun(peer, "confirm"), "completed", "failed")
    assert task["status"] == "failed"
    assert task["error"]["code"] == -32021


# --- asking before it becomes a task ----------------------------------------------------------------------


@run
async def test_questions_before_detaching_are_asked_in_the_call_and_later_ones_by_the_task() -> None:
    works = Works()
    peer = works.peer()
    reply = (await peer.send("tools/call", name="first", arguments={}))["result"]
    assert reply["resultType"] == "input_required"
    assert "taskId" not in reply
    created = (
        await peer.send(
            "tools/call",
            name="first",
            arguments={},
            inputResponses={"who": accepted("Ann")},
            requestState=reply["requestState"],
        )
    )["result"]
    assert created["resultType"] == "task"
    assert not {"requestState", "inputRequests"} & set(created)
    id = created["taskId"]
    await reaches(peer, id, "working")
    works.gate.set()
    await reaches(peer, id, "input_required")
    await peer.result("tasks/update", taskId=id, inputResponses={"sure": accepted("Yes")})
    assert (await reaches(peer, id, "completed"))["result"]["content"][0]["text"] == "Ann Yes"


@run
async def test_detaching_means_nothing_to_a_client_without_tasks() -> None:
    works = Works()
    works.gate.set()
    names = iter(("Ann", "Yes"))
    peer = works.peer(capabilities=EVERYTHING, answer=lambda method, params: accepted(next(names)))
    assert await peer.text("first") == "Ann Yes"


@run
async def test_a_handler_that_never_detaches_answers_the_call() -> None:
    works = Works()
    works.gate.set()
    assert await works.peer().text("linger") == "never detached"


@run
async def test_a_handler_cannot_detach_with_a_question_open() -> None:
    server = Server("stubborn")

    @server.tool(task="optional", asks_first=True)
    async def stubborn(ctx: Context) -> str:
        """Swallow everything."""
        try:
            await ctx.elicit("Who?", Name, key="who")
        except BaseException:
            pass
        await ctx.detach()
        return "detached"

    reply = await Peer(server, capabilities=DECLARED).send("tools/call", name="stubborn", arguments={})
    assert reply["result"]["resultType"] == "input_required"


@run
async def test_a_call_cancelled_before_detaching_takes_its_handler_with_it() -> None:
    works = Works()
    call = asyncio.create_task(works.peer().call("linger"))
    await works.reached.wait()
    call.cancel()
    await asyncio.wait([call])
    await works.cancelled.wait()


@run
async def test_a_forged_state_is_refused_before_the_handler_runs() -> None:
    works = Works()
    reply = await works.peer().send("tools/call", name="first", arguments={}, requestState="forged")
    assert reply["error"]["code"] == -32602
    assert not works.reached.is_set()


# --- ending -----------------------------------------------------------------------------------------------


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
async def test_more_tasks_than_the_limit_are_refused_until_one_is_forgotten() -> None:
    clock = Clock()
    works = Works(clock=clock, limits=Limits(tasks=2), tasks=TaskOptions(ttl=60))
    peer = works.peer()
    works.gate.set()
    for _ in range(2):
        await reaches(peer, await begun(peer, "wait"), "completed")
    error = await peer.error("tools/call", name="wait", arguments={})
    assert error["data"]["kind"] == "too_many_tasks"
    clock.now += 61
    await reaches(peer, await begun(peer, "wait"), "completed")


@run
async def test_one_principal_cannot_take_the_place_of_all_others() -> None:
    works = Works(limits=Limits(tasks=4))
    works.gate.set()
    greedy, other = works.peer(principal="greedy"), works.peer(principal="other")
    for _ in range(2):
        await reaches(greedy, await begun(greedy, "wait"), "completed")
    error = await greedy.error("tools/call", name="wait", arguments={})
    assert error["data"]["kind"] == "too_many_tasks"
    await reaches(other, await begun(other, "wait"), "completed")


@run
async def test_stopping_the_server_ends_the_work() -> None:
    works = Works()
    peer = works.peer()
    id = await begun(peer, "wait")
    await works.reached.wait()
    await works.server.stop()
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
async def test_a_result_that_finds_no_room_fails_its_task(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("large", store=MemoryStore(size=2000))

    @server.tool(task="optional")
    async def large() -> str:
        """Return a lot."""
        return "x" * 3000

    peer = Peer(server, capabilities=DECLARED)
    task = await reaches(peer, await begun(peer, "large"), "completed", "failed")
    assert task["status"] == "failed"
    assert task["error"]["data"]["kind"] == "tool_result_too_large"


# --- telling ----------------------------------------------------------------------------------------------


async def listening(peer: Peer, *ids: str) -> "asyncio.Task[Any]":
    peer.notes.clear()
    peer.told.clear()
    stream = asyncio.create_task(peer.send("subscriptions/listen", notifications={"taskIds": list(ids)}))
    await peer.told.wait()
    return stream


def heard(peer: Peer) -> list[str]:
    return [note["params"]["status"] for note in peer.notes if note["method"] == "notifications/tasks"]


@run
async def test_a_listen_stream_hears_of_the_tasks_it_named() -> None:
    works = Works()
    peer, stream_peer = works.peer(), works.peer()
    id = await begun(peer, "confirm")
    await reaches(peer, id, "input_required")
    stream = await listening(stream_peer, id)
    acknowledged = stream_peer.notes[0]["params"]["notifications"]
    assert acknowledged["taskIds"] == [id]
    await peer.result("tasks/update", taskId=id, inputResponses={"who": accepted("Ann")})
    await reaches(peer, id, "completed")
    assert heard(stream_peer) == ["working", "completed"]
    last = stream_peer.notes[-1]["params"]
    assert last["result"]["content"][0]["text"] == "Hello, Ann!"
    assert "io.modelcontextprotocol/subscriptionId" in last["_meta"]
    works.server.end_listening()
    await stream


@run
async def test_a_listen_stream_is_told_at_once_of_a_task_that_is_over() -> None:
    works = Works()
    works.gate.set()
    peer, stream_peer = works.peer(), works.peer()
    id = await begun(peer, "wait")
    await reaches(peer, id, "completed")
    stream = await listening(stream_peer, id)
    assert heard(stream_peer) == ["completed"]
    works.server.end_listening()
    await stream


@run
async def test_a_listen_stream_hears_nothing_of_foreign_tasks() -> None:
    works = Works()
    mine, other = works.peer(principal="me"), works.peer(principal="you")
    id = await begun(mine, "wait")
    stream = await listening(other, id)
    assert other.notes[0]["params"]["notifications"].get("taskIds", []) == []
    works.gate.set()
    await reaches(mine, id, "completed")
    assert heard(other) == []
    works.server.end_listening()
    await stream


@run
async def test_progress_becomes_what_the_task_says_about_itself() -> None:
    works = Works()
    peer = works.peer()
    id = await begun(peer, "report")
    await works.reached.wait()
    task = await reaches(peer, id, "working")
    assert task["statusMessage"] == "half way"
    assert peer.notes == []
    works.gate.set()
    await reaches(peer, id, "completed")
