"""Tasks of 2025-11-25 in both directions, and the questions that an error asks for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.errors import DovetailError, ProtocolError, RequestTimeout, StateError
from dovetail.middleware import Timing
from dovetail.testing import connect

from ..support.aio import run
from ..support.waiting import HANG
from .scripted import Peer, Scripted, legacy, text

SERVED = {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}
STAMPS = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": 1000}


async def settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


def server(support: str = "optional") -> Scripted:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "tools/list":
                tool = {"name": "x", "inputSchema": {"type": "object"}, "execution": {"taskSupport": support}}
                peer.result(message, {"tools": [tool]})
            case "tools/call" if "task" in message["params"]:
                peer.result(message, {"task": {"taskId": "t", "status": "working", **STAMPS}})
            case "tools/call":
                peer.result(message, text("at once"))
            case "tasks/get":
                peer.result(message, {"taskId": "t", "status": "working", **STAMPS})
            case "tasks/cancel":
                peer.result(message, {"taskId": "t", "status": "cancelled", **STAMPS})
            case "tasks/result":
                peer.result(message, text("later"))

    return legacy(answer, "2025-11-25", **SERVED)


@run
async def test_a_task_is_asked_for_and_its_result_waited_for() -> None:
    target = server()
    async with Client(target, revision="legacy") as client:
        handle = await client.call_tool("x", {}, task=True, ttl=5000)
        assert target.peer.heard[-1]["params"]["task"] == {"ttl": 5000}
        assert (handle.id, await handle.status()) == ("t", "working")
        assert (await handle.result()).text == "later"


@run
async def test_a_tool_that_requires_a_task_is_driven_inside_the_call() -> None:
    target = server("required")
    async with Client(target, revision="legacy") as client:
        assert (await client.call_tool("x")).text == "at once"
        await client.list_tools()
        assert (await client.call_tool("x")).text == "later"


def strict(support: str = "required", code: int = -32601) -> Scripted:
    """A server that refuses a call without a task, as the specification wants it of tools that require one."""

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "tools/list":
                tool = {"name": "x", "inputSchema": {"type": "object"}, "execution": {"taskSupport": support}}
                peer.result(message, {"tools": [tool]})
            case "tools/call" if "task" in message["params"]:
                peer.result(message, {"task": {"taskId": "t", "status": "working", **STAMPS}})
            case "tools/call":
                peer.error(message, code, "the tool x must be called as a task")
            case "tasks/cancel":
                peer.result(message, {"taskId": "t", "status": "cancelled", **STAMPS})

    return legacy(answer, "2025-11-25", **SERVED)


@run
async def test_a_tool_that_was_never_listed_is_called_as_a_task_once_it_asks_for_it() -> None:
    served = Server("jobs")

    @served.tool(task="required")
    async def work(n: int) -> int:
        return n * 2

    for revision in ("2025-11-25", "2026-07-28"):
        async with connect(served, revision) as client:
            assert (await client.call_tool("work", {"n": 21})).data == 42
            assert (await client.call_tool("work", {"n": 4})).data == 8
            with pytest.raises(ProtocolError):
                await client.call_tool("play")


@run
async def test_a_call_that_became_a_task_by_itself_has_its_limits_and_ends_with_its_caller() -> None:
    target = strict()
    async with Client(target, revision="legacy") as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("x", timeout=0.05)
        assert target.peer.methods[-1] == "tasks/cancel"
        calls = [one["params"] for one in target.peer.heard if one.get("method") == "tools/call"]
        assert ["task" in params for params in calls] == [False, True]
        waiting = asyncio.ensure_future(client.call_tool("x"))
        await settle()
        assert target.peer.methods[-2:] == ["tools/call", "tasks/result"]  # by now it is known
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert target.peer.methods[-1] == "tasks/cancel"


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
@run
async def test_a_result_that_is_refused_before_the_end_is_asked_for_again(end: str) -> None:
    left = 3

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        nonlocal left
        match message.get("method"):
            case "tools/call":
                peer.result(message, {"task": {"taskId": "t", "status": "working", **STAMPS}})
            case "tasks/get":
                left -= 1
                status = "working" if left > 0 else end
                peer.result(message, {"taskId": "t", "status": status, "pollInterval": 1, **STAMPS})
            case "tasks/result" if left > 0:
                peer.error(message, -32602, "Task not completed yet (current state: working)")
            case "tasks/result" if end == "completed":
                peer.result(message, text("later"))
            case "tasks/result":
                peer.error(message, -32603, f"it has {end}")

    target = legacy(answer, "2025-11-25", **SERVED)
    async with Client(target, revision="legacy") as client:
        handle = await client.create_task("x", {})
        if end == "completed":
            assert (await handle.result()).text == "later"
        else:
            with pytest.raises(ProtocolError, match=f"it has {end}"):
                await handle.result()
        assert left == 0


@run
async def test_another_refusal_makes_no_task() -> None:
    for target in (strict("optional"), strict(code=-32602)):
        async with Client(target, revision="legacy") as client:
            with pytest.raises(ProtocolError, match="as a task"):
                await client.call_tool("x")
            assert not any("task" in one.get("params", {}) for one in target.peer.heard)


@run
async def test_a_task_is_cancelled_by_its_own_method() -> None:
    target = server()
    async with Client(target, revision="legacy") as client:
        handle = await client.call_tool("x", task=True)
        await handle.cancel()
        assert await handle.status() == "cancelled"
        assert target.peer.methods[-1] == "tasks/cancel"


@run
async def test_a_server_runs_tasks_for_a_client_in_both_designs() -> None:
    served = Server("jobs")

    @served.tool(task="optional")
    async def work(n: int) -> int:
        await asyncio.sleep(0)
        return n * 2

    for revision in ("2025-11-25", "2026-07-28"):
        async with connect(served, revision) as client:
            handle = await client.call_tool("work", {"n": 21}, task=True)
            assert (await handle.result()).data == 42
            assert (await client.call_tool("work", {"n": 4})).data == 8


@pytest.mark.parametrize("middleware", [[], [Timing()]])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@run
async def test_a_task_that_is_asked_for_is_one_though_it_need_not_be(
    revision: str, middleware: list[Any]
) -> None:
    served, gate = Server("jobs"), asyncio.Event()

    @served.tool(task="optional")
    async def work() -> str:
        await gate.wait()
        return "done"

    async with connect(served, revision, middleware=middleware) as client:
        handle = await client.create_task("work")
        assert await handle.status() == "working"
        again = client.task(handle.id)
        gate.set()
        assert (await again.result()).text == "done"


# --- we are the host -------------------------------------------------------------------------------------------------


class Asker:
    """A server that asks questions as tasks."""

    def __init__(self) -> None:
        self.answers: dict[Any, dict[str, Any]] = {}
        self.target = legacy(self.take, "2025-11-25")

    def take(self, peer: Peer, message: dict[str, Any]) -> None:
        if "method" not in message:
            self.answers[message["id"]] = message

    async def ask(self, id: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.target.peer.say({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        for _ in range(200):
            await asyncio.sleep(0)
            if id in self.answers:
                return self.answers[id]
        raise AssertionError("no response received")


SAMPLE = {"messages": [], "maxTokens": 5, "task": {"ttl": 60000}}


@run
async def test_an_input_request_may_be_a_task_whose_answer_is_fetched() -> None:
    gate = asyncio.Event()

    async def on_sample(request: Any) -> str:
        await gate.wait()
        return "sampled"

    asker = Asker()
    async with Client(asker.target, revision="legacy", on_sample=on_sample):
        declared = asker.target.peer.heard[0]["params"]["capabilities"]["tasks"]
        assert declared["requests"] == {"sampling": {"createMessage": {}}}
        created = (await asker.ask("a", "sampling/createMessage", SAMPLE))["result"]["task"]
        assert created["status"] == "working"
        got = await asker.ask("b", "tasks/get", {"taskId": created["taskId"]})
        assert got["result"]["status"] == "working"
        gate.set()
        found = (await asker.ask("c", "tasks/result", {"taskId": created["taskId"]}))["result"]
        assert found["content"] == {"type": "text", "text": "sampled"}
        assert found["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": created["taskId"]}
        listed = (await asker.ask("d", "tasks/list", {}))["result"]["tasks"]
        assert [task["status"] for task in listed] == ["completed"]


@run
async def test_a_hosted_task_can_be_cancelled_once_and_unknown_ones_not() -> None:
    async def forever(request: Any) -> str:
        await asyncio.Event().wait()
        return ""

    asker = Asker()
    async with Client(asker.target, revision="legacy", on_sample=forever):
        created = (await asker.ask("a", "sampling/createMessage", SAMPLE))["result"]["task"]
        cancelled = await asker.ask("b", "tasks/cancel", {"taskId": created["taskId"]})
        assert cancelled["result"]["status"] == "cancelled"
        again = await asker.ask("c", "tasks/cancel", {"taskId": created["taskId"]})
        assert again["error"]["code"] == -32602
        unknown = await asker.ask("d", "tasks/get", {"taskId": "nobody"})
        assert unknown["error"]["code"] == -32602
        await asker.ask("e", "sampling/createMessage", SAMPLE)  # still running when the client closes


# --- URLs that an error asks for -------------------------------------------------------------------------------------


def demanding(completes: bool = True) -> Scripted:
    """Refuses the first call until the user has been at a URL."""
    calls = [0]

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message.get("method") != "tools/call":
            return
        calls[0] += 1
        if calls[0] > 1 and completes:
            peer.result(message, text("welcome"))
            return
        page = {"mode": "url", "message": "Sign in", "url": "https://x.example/in", "elicitationId": "e1"}
        peer.error(message, -32042, "sign in first", {"elicitations": [page]})
        done = {
            "jsonrpc": "2.0",
            "method": "notifications/elicitation/complete",
            "params": {"elicitationId": "e1"},
        }
        if completes:
            asyncio.get_running_loop().call_later(0.02, peer.say, done)

    return legacy(answer, "2025-11-25")


@run
async def test_a_url_an_error_asks_for_is_shown_and_the_call_repeated() -> None:
    shown: list[str] = []

    def on_elicit(request: Any) -> str:
        shown.append(request.url)
        return "accept"

    async with Client(demanding(), revision="legacy", on_elicit=on_elicit) as client:
        assert (await client.call_tool("x")).text == "welcome"
    assert shown == ["https://x.example/in"]


@pytest.mark.parametrize("on_elicit", [None, lambda request: "decline"])
@run
async def test_without_consent_the_error_is_the_outcome(on_elicit: Any) -> None:
    async with Client(demanding(), revision="legacy", on_elicit=on_elicit) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.call_tool("x")
        assert caught.value.kind == "url_elicitation_required"


@run
async def test_an_uncompleted_url_leaves_no_state() -> None:
    async with Client(
        demanding(completes=False), revision="legacy", on_elicit=lambda _: "accept", reconnect=False
    ) as client:
        for _ in range(3):
            with pytest.raises(ProtocolError) as caught:
                await client.call_tool("x", timeout=0.05)
            assert caught.value.kind == "url_elicitation_required"
            assert client._connections._completed == {}  # noqa: SLF001  no future may be left


@run
async def test_a_call_that_waits_for_a_url_ends_with_its_connection() -> None:
    target, accepted = demanding(completes=False), asyncio.Event()
    client = Client(
        target, revision="legacy", on_elicit=lambda _: accepted.set() or "accept", reconnect=False
    )
    async with client:
        call = asyncio.create_task(client.call_tool("x"))
        await accepted.wait()
        target.peers[-1].drop()
        with pytest.raises(DovetailError):
            await asyncio.wait_for(call, HANG)


@run
async def test_two_calls_that_wait_for_the_same_url_are_both_repeated() -> None:
    both: list[int] = []
    page = {"mode": "url", "message": "Sign in", "url": "https://x.example/in", "elicitationId": "e1"}
    refused = 0

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        nonlocal refused
        if message.get("method") != "tools/call":
            return
        refused += 1
        if refused > 2:
            peer.result(message, text("welcome"))
        else:
            peer.error(message, -32042, "sign in first", {"elicitations": [page]})

    def on_elicit(request: Any) -> str:
        both.append(1)
        if len(both) == 2:
            done = {"elicitationId": "e1"}
            note = {"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": done}
            asyncio.get_running_loop().call_later(0.02, target.peers[-1].say, note)
        return "accept"

    target = legacy(answer, "2025-11-25")
    async with Client(target, revision="legacy", on_elicit=on_elicit) as client:
        calls = [client.call_tool("x"), client.call_tool("x")]
        results = await asyncio.wait_for(asyncio.gather(*calls), HANG)
        assert [result.text for result in results] == ["welcome", "welcome"]


# --- pausing ---------------------------------------------------------------------------------------------------------


@run
async def test_a_paused_client_refuses_new_calls_and_finishes_old_ones() -> None:
    release = asyncio.Event()
    served = Server("s")

    @served.tool
    async def work() -> str:
        await release.wait()
        return "done"

    async with connect(served) as client:
        call = asyncio.create_task(client.call_tool("work"))
        await settle()
        client.pause()
        assert client.state == "paused"
        with pytest.raises(StateError, match="paused"):
            await client.call_tool("work")
        release.set()
        assert (await call).text == "done"
        client.resume()
        assert (await client.call_tool("work")).text == "done"
        with pytest.raises(StateError):
            client.resume()


@run
async def test_the_handle_of_a_task_shows_what_it_is() -> None:
    served = Server("s")

    @served.tool(task="required")
    async def work() -> str:
        return "done"

    async with connect(served, revision="2025-11-25") as client:
        handle = await client.create_task("work", {})
        assert repr(handle) == f"TaskHandle(id={handle.id!r}, status='working')"
        await handle.result()
        assert repr(handle) == f"TaskHandle(id={handle.id!r}, status='completed')"
