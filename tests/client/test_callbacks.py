"""Callbacks that are slower than the server's news, or that fail."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dovetail import Client, Context, DovetailError, Server
from dovetail.client.server_requests.callbacks import MAX_RUNNING_CALLBACKS
from dovetail.wire.revisions import REVISIONS

from ..support.aio import run
from ..support.waiting import until
from ..support.web import served
from .scripted import Peer, legacy


@run
async def test_log_notifications_beyond_the_queue_are_dropped_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = asyncio.Event()

    async def slow(_: Any) -> None:
        await gate.wait()

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message.get("method") == "ping":
            for _ in range(MAX_RUNNING_CALLBACKS + 3):
                log = {"level": "info", "data": "x"}
                peer.say({"jsonrpc": "2.0", "method": "notifications/message", "params": log})
            peer.result(message, {})

    async with Client(legacy(answer), revision="legacy", on_log=slow) as client:
        await client.ping()
        assert client.violations == {"notification_queue_full": 3}
        warnings = [record.message for record in caplog.records if "dropped" in record.message]
        assert len(warnings) == 1
        gate.set()
        await until(lambda: "notifications dropped count=3" in caplog.text)


def asking() -> Server:
    server = Server("asking")

    @server.tool
    async def sample(ctx: Context) -> str:
        return str(await ctx.sample("hello"))

    @server.tool
    async def elicit(ctx: Context) -> str:
        return str(await ctx.elicit("your name?", str))

    @server.tool(task="required")
    async def work(ctx: Context) -> str:
        return str(await ctx.elicit("your name?", str))

    @server.prompt
    async def greet(ctx: Context) -> str:
        return str(await ctx.elicit("your name?", str))

    @server.resource("name://here")
    async def name(ctx: Context) -> str:
        return str(await ctx.elicit("your name?", str))

    return server


async def broken(_: Any) -> str:
    raise LookupError("the address book is closed")


@pytest.mark.parametrize("revision", [row.name for row in REVISIONS])
@pytest.mark.parametrize("tool", ["sample", "elicit"])
@pytest.mark.parametrize("over", ["memory", "http"])
def test_a_callback_that_fails_is_the_cause_of_the_call_that_fails(
    over: str, tool: str, revision: str
) -> None:
    if tool == "elicit" and revision < "2025-06-18":
        pytest.skip("nobody can ask yet")

    async def called(target: Any) -> None:
        async with Client(target, revision=revision, on_sample=broken, on_elicit=broken) as client:
            with pytest.raises(DovetailError) as caught:
                await client.call_tool(tool)
            assert isinstance(caught.value.__cause__, LookupError)
            with pytest.raises(DovetailError) as unknown:
                await client.call_tool("unknown")
            assert unknown.value.__cause__ is None

    @run
    async def scenario() -> None:
        if over == "memory":
            await called(asking())
            return
        async with served(asking()) as site:
            await called(f"http://127.0.0.1:{site.port}/mcp")

    scenario()


ASKED: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "prompt": lambda client: client.get_prompt("greet"),
    "resource": lambda client: client.read_resource("name://here"),
    "task": lambda client: client.call_tool("work"),
}


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("what", ASKED)
@run
async def test_whatever_asks_a_callback_that_fails_has_it_as_its_cause(what: str, revision: str) -> None:
    if what == "task" and revision < "2025-11-25":
        pytest.skip("there are none yet")
    async with Client(asking(), revision=revision, on_elicit=broken) as client:
        await client.ping()
        with pytest.raises(DovetailError) as caught:
            await ASKED[what](client)
        assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
@run
async def test_of_calls_side_by_side_over_http_each_has_its_own_cause(revision: str) -> None:
    async def other(_: Any) -> str:
        raise KeyError("no model")

    async with served(asking()) as site:
        target = f"http://127.0.0.1:{site.port}/mcp"
        async with Client(target, revision=revision, on_sample=other, on_elicit=broken) as client:
            calls = [client.call_tool(tool) for tool in ("sample", "elicit", "unknown", "sample")]
            failed = await asyncio.gather(*calls, return_exceptions=True)
    causes = [type(error.__cause__) for error in failed if isinstance(error, DovetailError)]
    assert causes == [KeyError, LookupError, type(None), KeyError]


@run
async def test_a_ping_parallel_to_the_only_call_does_not_hide_its_cause() -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "tools/call":
                calls.append(message)
                form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
                peer.say({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form})
            case None:
                peer.error(calls[0], -32603)

    calls: list[dict[str, Any]] = []
    async with Client(legacy(answer, "2025-11-25"), on_elicit=broken) as client:
        ping = asyncio.create_task(client.ping())
        await asyncio.sleep(0)
        with pytest.raises(DovetailError) as caught:
            await client.call_tool("x")
        ping.cancel()
    assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_of_calls_side_by_side_none_has_a_cause_that_may_be_anothers(revision: str) -> None:
    async with Client(asking(), revision=revision, on_elicit=broken) as client:
        calls = [client.call_tool("elicit") for _ in range(2)]
        failed = await asyncio.gather(*calls, return_exceptions=True)
    causes = [type(error.__cause__) for error in failed if isinstance(error, DovetailError)]
    assert causes == [LookupError if revision == "2026-07-28" else type(None)] * 2


@run
async def test_an_input_request_that_is_a_task_is_the_cause_too() -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "tools/call":
                calls.append(message)
                form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}, "task": {}}
                peer.say({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form})
            case None if message["id"] == "q":
                task = {"taskId": message["result"]["task"]["taskId"]}
                peer.say({"jsonrpc": "2.0", "id": "r", "method": "tasks/result", "params": task})
            case None:
                peer.error(calls[0], -32603)

    calls: list[dict[str, Any]] = []
    async with Client(legacy(answer, "2025-11-25"), on_elicit=broken) as client:
        with pytest.raises(DovetailError) as caught:
            await client.call_tool("x")
    assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_a_callback_whose_own_work_was_cancelled_does_not_cancel_the_caller(revision: str) -> None:
    async def closed(_: Any) -> None:
        window = asyncio.get_running_loop().create_future()
        window.cancel()
        await window

    async with Client(asking(), revision=revision, on_elicit=closed) as client:
        with pytest.raises(DovetailError, match="cancelled"):
            await client.call_tool("elicit")


class Abort(BaseException):
    """An exception of a library that is not an `Exception`."""


@run
async def test_a_callback_that_raises_anything_does_not_lose_the_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def abort(*_: Any) -> None:
        raise Abort("secret")

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message.get("method") == "tools/call":
            token = message["params"]["_meta"]["progressToken"]
            news = {"progressToken": token, "progress": 1}
            peer.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": news})
            log = {"level": "info", "data": "x"}
            peer.say({"jsonrpc": "2.0", "method": "notifications/message", "params": log})
            peer.result(message, {"content": []})

    async with Client(legacy(answer), revision="legacy", on_log=abort) as client:
        assert (await client.call_tool("x", {}, on_progress=abort)).text == ""
    assert caplog.text.count("a callback failed") == 2


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@run
async def test_a_notification_handler_that_raises_anything_is_logged(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("hearing")

    async def abort(params: dict[str, Any]) -> None:
        raise Abort("secret")

    server.add_notification("acme/news", abort)
    async with Client(server, revision=revision) as client:
        await client.notify("acme/news", {})
        await until(lambda: "the handler of acme/news failed" in caplog.text)
        await client.ping()
