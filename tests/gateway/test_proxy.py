"""A proxy between every downstream revision and every upstream revision."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dovetail import Client, Context, ProtocolError, Reconnect, Refusal, Server, ToolError
from dovetail.gateway import Proxy
from tests.gateway import behind as room
from tests.gateway.behind import behind
from tests.support.aio import run
from tests.support.waiting import HANG, reached, until
from tests.support.web import Web, served

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
PAIRS = [(front, back) for front in REVISIONS for back in REVISIONS]
SINCE = {"elicitation": "2025-06-18", "tasks": "2025-11-25"}

each_pair = pytest.mark.parametrize(("front", "back"), PAIRS, ids=lambda name: name)


@asynccontextmanager
async def between(front: str, back: str, **options: Any) -> AsyncIterator[tuple[Client, Server]]:
    server = behind()
    async with Client(Proxy(server, revision=back), revision=front, **options) as client:
        yield client, server


@each_pair
@run
async def test_everything_without_input_requests_goes_through(front: str, back: str) -> None:
    async with between(front, back) as (client, server):
        assert (client.server_info.name, client.instructions) == ("behind", "ask first")  # pyright: ignore
        assert {tool.name for tool in await client.list_tools()} == set(server.registry.tools)
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        assert (await client.call_tool("fail", check=False)).is_error
        assert [one.uri for one in await client.list_resources()] == ["note://one"]
        assert [one.uri_template for one in await client.list_resource_templates()] == ["city://{name}"]
        assert (await client.read_resource("city://oslo")).text == "about oslo"
        assert (await client.get_prompt("ask", {"city": "Oslo"})).text == "How is Oslo?"
        with pytest.raises(ProtocolError, match="nobody") as unknown:
            await client.call_tool("nobody")
        with pytest.raises(ProtocolError) as missing:
            await client.read_resource("city:///")
        assert unknown.value.code == -32602
        assert missing.value.code == (-32602 if front == "2026-07-28" else -32002)
        assert (await client.complete("ask", "city", "osl")).completion.values == ["oslo"]


@pytest.mark.parametrize("task", [True, False])
@pytest.mark.parametrize("back", ["2025-11-25", "2026-07-28"])
@run
async def test_a_tool_that_may_be_an_upstream_task_requests_input_from_the_downstream_client(
    back: str, task: bool
) -> None:
    server = Server("asking", "1")

    @server.tool(task="optional")
    async def book(ctx: Context) -> str:
        answer = await ctx.elicit("Which day?", {"type": "object", "properties": {"day": {"type": "string"}}})
        return f"booked {answer.data['day']}"

    proxy = Proxy(server, revision=back)
    async with Client(proxy, revision="2026-07-28", on_elicit=lambda request: {"day": "monday"}) as client:
        await client.list_tools()
        if task:
            handle = await client.call_tool("book", task=True)
            result = await asyncio.wait_for(handle.result(), HANG)
        else:
            result = await asyncio.wait_for(client.call_tool("book"), HANG)
        assert result.text == "booked monday"


@each_pair
@run
async def test_upstream_input_requests_reach_the_downstream_client(front: str, back: str) -> None:
    days = iter(["monday", "friday"])
    options: dict[str, Any] = {
        "on_elicit": lambda request: {"day": next(days)},
        "on_sample": lambda request: "sampled",
        "on_roots": ["file:///home"],
    }
    async with between(front, back, **options) as (client, _):
        assert (await client.call_tool("sample")).text == "sampled"
        assert (await client.call_tool("roots")).text == "file:///home"
        if min(front, back) >= SINCE["elicitation"]:
            assert (await client.call_tool("trip")).text == "monday to friday"
        else:
            with pytest.raises((ToolError, ProtocolError)):
                await client.call_tool("trip")


@pytest.mark.parametrize("back", REVISIONS)
@pytest.mark.parametrize("front", ["2025-06-18", "2026-07-28"])
@run
async def test_a_client_without_the_capability_gets_no_input_request(front: str, back: str) -> None:
    async with between(front, back) as (client, _):
        for tool in ("sample", "trip"):
            with pytest.raises((ToolError, ProtocolError)):
                await client.call_tool(tool)
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


@each_pair
@run
async def test_progress_and_logs_reach_the_caller(front: str, back: str) -> None:
    progress: list[Any] = []
    logs: list[Any] = []
    async with between(front, back, on_log=logs.append) as (client, _):
        await client.set_logging_level("info")
        done = await client.call_tool("steps", on_progress=lambda *news: progress.append(news))
        assert done.text == "done"
        await until(lambda: logs and progress)
        assert [log.data for log in logs] == ["working"]
        message = "half" if min(front, back) >= "2025-03-26" else None
        assert progress == [(1, 2, message)]


@pytest.mark.parametrize("back", REVISIONS)
@pytest.mark.parametrize("front", ["2025-06-18", "2026-07-28"])
@run
async def test_a_downstream_cancellation_cancels_the_upstream_call(front: str, back: str) -> None:
    room.started.clear()
    async with between(front, back) as (client, _):
        call = asyncio.ensure_future(client.call_tool("forever"))
        await room.started.wait()
        call.cancel()
        await room.stopped.wait()


@pytest.mark.parametrize("back", REVISIONS)
@pytest.mark.parametrize("front", ["2024-11-05", "2026-07-28"])
@run
async def test_upstream_changes_are_sent_downstream(front: str, back: str) -> None:
    changed: list[str] = []
    updated: list[str] = []
    options: dict[str, Any] = {"on_list_changed": changed.append, "on_resource_updated": updated.append}
    async with between(front, back, **options) as (client, server):
        await client.list_tools()
        await client.subscribe_resource("city://oslo")
        await server.notify_resource_updated("city://oslo")
        await until(lambda: updated == ["city://oslo"])
        server.add_tool(lambda: "new", name="late", description="d")
        await until(lambda: "tools" in changed)
        assert "late" in {tool.name for tool in await client.list_tools()}
        await client.unsubscribe_resource("city://oslo")


@pytest.mark.parametrize("back", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("front", ["2025-11-25", "2026-07-28"])
@run
async def test_a_downstream_task_runs_upstream(front: str, back: str) -> None:
    async with between(front, back) as (client, _):
        await client.list_tools()
        handle = await client.call_tool("long", {"n": 4}, task=True)
        assert (await handle.result()).text == "8"
        assert handle.id is not None


@run
async def test_an_unanswered_upstream_input_request_ends_with_its_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dovetail.gateway.suspended_calls.HELD_SECONDS", 0.01)

    async def never(request: Any) -> None:
        await asyncio.Event().wait()

    async with between("2026-07-28", "2025-06-18", on_sample=never) as (client, _):
        call = asyncio.ensure_future(client.call_tool("sample"))
        await asyncio.wait([call], timeout=0.1)
        call.cancel()
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


@run
async def test_metadata_goes_through_and_what_belongs_to_the_way_does_not() -> None:
    seen: list[Any] = []

    def note(call_next: Any) -> Any:
        async def noted(request: Any) -> Any:
            if request.call.method == "tools/call":
                seen.append(dict(request.call.meta))
            return await call_next(request)

        return noted

    server = Server("behind", "1", middleware=[note])
    server.add_tool(lambda: "x", name="x", description="d")
    async with Client(Proxy(server), revision="2026-07-28") as client:
        await client.call_tool("x", meta={"com.example/trace": "abc", "traceparent": "00-1-2-3"})
    assert seen[0]["com.example/trace"] == "abc"
    assert seen[0]["traceparent"] == "00-1-2-3"


@run
async def test_a_proxy_is_mounted_like_a_server() -> None:
    parent = Server("parent", "1")
    parent.mount(Proxy(behind(), revision="2025-06-18"), prefix="b")
    days = iter(["monday", "friday"])
    async with Client(parent, revision="2026-07-28", on_elicit=lambda r: {"day": next(days)}) as client:
        assert "b_add" in {tool.name for tool in await client.list_tools()}
        assert (await client.call_tool("b_add", {"a": 1, "b": 2})).text == "3"
        assert (await client.call_tool("b_trip")).text == "monday to friday"
        read = await client.read_resource("city://b/oslo")
        assert (read.contents[0].uri, read.text) == ("city://b/oslo", "about oslo")


@run
async def test_a_server_that_dies_leaves_the_lists_and_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    holder = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    port = holder.sockets[0].getsockname()[1]
    holder.close()
    await holder.wait_closed()
    changed: list[str] = []
    proxy = Proxy(
        f"tcp://127.0.0.1:{port}",
        "remote",
        reconnect=Reconnect(initial_delay=0.01, max_delay=0.02, max_attempts=None),
    )
    parent = Server("parent", "1")
    parent.add_tool(lambda: "mine", name="own", description="d")
    parent.mount(proxy, prefix="b")
    serving = asyncio.ensure_future(behind().serve("tcp", port=port, host="127.0.0.1"))
    _, writer = await reached(lambda: asyncio.open_connection("127.0.0.1", port))
    writer.close()
    await writer.wait_closed()
    async with Client(parent, revision="2026-07-28", on_list_changed=changed.append) as client:
        assert "b_add" in {tool.name for tool in await client.list_tools()}
        serving.cancel()
        await asyncio.wait([serving])
        await until(lambda: proxy.remote.problem is not None)
        assert [tool.name for tool in await client.list_tools(fresh=True)] == ["own"]
        assert "upstream disconnected" in caplog.text
        serving = asyncio.ensure_future(behind().serve("tcp", port=port, host="127.0.0.1"))
        await until(lambda: proxy.remote.problem is None)
        assert "b_add" in {tool.name for tool in await client.list_tools(fresh=True)}
        assert (await client.call_tool("b_add", {"a": 1, "b": 2})).text == "3"
        assert "tools" in changed
    serving.cancel()
    await asyncio.wait([serving])


@run
async def test_a_server_that_is_down_is_left_out_and_comes_back(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dovetail.gateway.remote.UPSTREAM_RETRY", (0.01, 0.02))

    holder = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    port = holder.sockets[0].getsockname()[1]
    holder.close()
    await holder.wait_closed()
    changed: list[str] = []
    parent = Server("parent", "1")
    parent.add_tool(lambda: "mine", name="own", description="d")
    parent.mount(Proxy(f"tcp://127.0.0.1:{port}", "remote"), prefix="b")
    async with Client(parent, revision="2026-07-28", on_list_changed=changed.append) as client:
        assert [tool.name for tool in await client.list_tools()] == ["own"]
        assert "upstream unreachable" in caplog.text
        with pytest.raises(Refusal, match=r"remote cannot be reached: connection refused$"):
            await client.call_tool("b_add", {"a": 1, "b": 2})
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(behind().serve("tcp", port=port, host="127.0.0.1"))
            await until(lambda: "tools" in changed)
            assert "b_add" in {tool.name for tool in await client.list_tools()}
            assert (await client.call_tool("b_add", {"a": 1, "b": 2})).text == "3"
            serving.cancel()


@pytest.fixture(autouse=True)
def fresh() -> None:
    room.started, room.stopped = asyncio.Event(), asyncio.Event()


def slow(back: str) -> tuple[Proxy, asyncio.Event]:
    """A proxy before a server whose tools may, must and cannot be tasks, and what the first waits for."""
    server, go_on = Server("slow", "1"), asyncio.Event()

    @server.tool(task="optional")
    async def may() -> str:
        await go_on.wait()
        return "done"

    @server.tool(task="required")
    async def must() -> str:
        return "done"

    @server.tool
    async def cannot() -> str:
        return "done"

    return Proxy(server, revision=back), go_on


@run
async def test_a_tool_that_may_be_an_upstream_task_is_one_for_modern_clients_with_tasks() -> None:
    """A server of 2025-11-25 leaves it to its client, which is the proxy; one of 2026-07-28 decides itself."""
    proxy, go_on = slow("2025-11-25")
    async with Client(proxy, revision="2026-07-28") as client:
        await client.list_tools()
        handle = await asyncio.wait_for(client.call_tool("may", task=True), HANG)
        assert await handle.status() == "working"
        go_on.set()
        result = await handle.result()
        assert result.text == "done"
        assert "io.modelcontextprotocol/related-task" not in (result.raw.meta or {}), (
            "a name known behind alone"
        )


MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bare", "version": "1"},
}


@pytest.mark.parametrize("back", ["2025-11-25", "2026-07-28"])
@run
async def test_a_tool_that_must_be_an_upstream_task_is_refused_to_clients_without_tasks(back: str) -> None:
    proxy, _ = slow(back)
    async with proxy.running():
        for name, code in (("must", -32021), ("cannot", None)):
            params = {"name": name, "arguments": {}, "_meta": MODERN_META}
            sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            reply = json.loads(await proxy.handle(json.dumps(sent).encode()) or b"")
            assert reply.get("error", {}).get("code") == code, reply


@run
async def test_a_stream_closed_upstream_is_closed_downstream() -> None:
    server = Server("polled", "1")

    @server.tool
    async def poll(ctx: Context) -> str:
        await ctx.close_stream()
        return "later"

    async with served(server, sse_retry_ms=7) as site:
        proxy = Proxy(f"http://127.0.0.1:{site.port}/mcp", revision="2025-11-25")
        async with served(proxy, sse_retry_ms=8) as face:
            web = Web(face)
            session, _ = await web.initialize("2025-11-25")
            found = await web.legacy("2025-11-25", session, "tools/call", {"name": "poll"}, id="x")
            assert found.body.startswith(b"id: ")
            assert b"retry: 8\n" in found.body
            assert b"later" not in found.body
            async with Client(f"http://127.0.0.1:{face.port}/mcp", revision="2025-11-25") as client:
                assert (await client.call_tool("poll")).text == "later"


@run
async def test_input_requests_pass_a_mounted_proxy_before_a_server_that_has_tasks() -> None:
    behind = Server("behind")

    @behind.tool
    async def ask(ctx: Context) -> str:
        first = await ctx.elicit("Sure?", bool)
        second = await ctx.elicit("Really?", bool)
        return f"{first.data} {second.data}"

    @behind.tool(task="optional")
    async def other(ctx: Context) -> str:
        return str((await ctx.elicit("Sure?", bool)).data)

    middle, front = Server("middle"), Server("front")
    middle.mount(Proxy(behind), prefix="up")
    front.mount(middle, prefix="deep")

    async def agree(*_: object) -> bool:
        return True

    async with Client(middle, on_elicit=agree) as client:
        assert (await client.call_tool("up_ask")).text == "True True"
        assert (await client.call_tool("up_other")).text == "True"
    async with Client(front, on_elicit=agree) as client:
        assert (await client.call_tool("deep_up_ask")).text == "True True"


@pytest.mark.parametrize("front", REVISIONS[:-1])
@run
async def test_a_client_without_the_capability_gets_a_failed_tool_as_without_a_proxy(front: str) -> None:
    server = Server("behind")

    @server.tool
    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("Sure?", bool)).data)

    kinds: list[str] = []
    for target in (server, Proxy(server, revision="2026-07-28")):
        async with Client(target, revision=front) as client:
            with pytest.raises(ToolError) as caught:
                await client.call_tool("ask")
            kinds.append(caught.value.kind)
    assert kinds == ["capability_not_supported", "capability_not_supported"]
