"""FastMCP's tools as tasks of ours, and tools that are found instead of listed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from dovetail import Client as Native
from dovetail.compat.fastmcp import Client, Context, FastMCP
from dovetail.compat.fastmcp.exceptions import ToolError
from dovetail.compat.fastmcp.server.auth import require_scopes
from dovetail.compat.fastmcp.server.tasks.config import TaskConfig
from dovetail.compat.fastmcp.server.transforms.search import RegexSearchTransform
from dovetail.compat.fastmcp.server.transforms.search.bm25 import BM25SearchTransform
from dovetail.compat.mcp.shared.exceptions import McpError
from dovetail.errors import DovetailError


def slow(mode: Any) -> FastMCP[Any]:
    mcp = FastMCP("slow")
    config = TaskConfig(mode, timedelta(milliseconds=20))

    @mcp.tool(task=config)
    async def add(a: int, b: int) -> int:
        return a + b

    @mcp.tool(task=config)
    async def ask(ctx: Context) -> int:
        return (await ctx.elicit("How many?", int)).data

    @mcp.tool(task=config)
    async def where(ctx: Context) -> str:
        assert ctx.is_background_task == (ctx.task_id is not None)
        return ctx.task_id or "call"

    @mcp.tool
    async def plain() -> str:
        return "at once"

    return mcp


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("mounted", [False, True], ids=["own", "mounted"])
def test_a_tool_runs_as_a_task_and_as_a_call(revision: str, mounted: bool) -> None:
    # On 2026-07-28 a client that wants to hear of progress, as ours does, gets an optional task at once.
    modern = revision == "2026-07-28"
    mcp = slow("required" if modern else "optional")
    if mounted:
        outer = FastMCP("outer")
        outer.mount(mcp)
        mcp = outer

    async def conversation() -> None:
        answer = {"action": "accept", "content": {"value": 3}}
        async with Native(mcp.native, revision=revision, on_elicit=lambda _: answer) as client:
            shown = {one.name: one for one in await client.list_tools()}
            if not modern:  # which does not tell
                assert shown["add"].execution.task_support == "optional"
            task = await client.create_task("add", {"a": 1, "b": 2})
            assert (await task.result()).structured_content == {"result": 3}
            assert (await (await client.create_task("ask", {})).result()).text == "3"
            where = await client.create_task("where", {})
            assert (await where.result()).text == where.id
            assert ((await client.call_tool("where", {})).text != "call") == modern
            assert (await client.call_tool("plain", {})).text == "at once"
            assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}

    asyncio.run(conversation())


def test_a_required_task_cannot_be_called_and_a_forbidden_one_is_no_task() -> None:
    mcp = FastMCP("strict", tasks=True)

    @mcp.tool(task=TaskConfig(mode="required"))
    async def must() -> str:
        return "done"

    @mcp.tool(task=False)
    def never() -> str:
        return "at once"

    @mcp.tool
    async def may() -> str:
        return "either"

    async def conversation() -> None:
        async with Native(mcp.native, revision="2025-11-25") as client:
            shown = {one.name: one for one in await client.list_tools()}
            assert shown["may"].execution.task_support == "optional"
            await client.request("tools/call", {"name": "may", "task": {}})
            for name, task in (("must", {}), ("never", {"task": {}})):
                with pytest.raises(DovetailError, match="task"):
                    await client.request("tools/call", {"name": name, **task})

    asyncio.run(conversation())
    with pytest.raises(ValueError, match="sync function"):
        mcp.tool(lambda: "", name="sync", task=True)
    with pytest.raises(TypeError, match="TaskConfig"):
        FastMCP("odd").tool(lambda: "", name="odd", task="yes")


def test_a_server_without_tasks_declares_none_and_a_tool_that_is_not_ones_own_is_none() -> None:
    plain = FastMCP("plain")
    plain.tool(lambda: "x", name="x")
    guarded = FastMCP("guarded")

    @guarded.tool(task=True, auth=require_scopes("admin"))
    async def secret() -> str:
        return "hush"

    async def conversation() -> None:
        async with Native(plain.native, revision="2025-11-25") as client:
            assert not client.server_capabilities.has("tasks")
        async with Native(guarded.native, revision="2025-11-25") as client:
            assert client.server_capabilities.has("tasks")
            asked = {"name": "secret", "task": {}}
            nowhere = await client.request("tools/call", {**asked, "name": "nowhere"})
            hidden = await client.request("tools/call", asked)
            assert str(hidden).replace("secret", "nowhere") == str(nowhere)

    asyncio.run(conversation())


def test_prompts_and_resources_of_tasks_are_answered_at_once_and_say_what_they_want() -> None:
    mcp = FastMCP("others")
    with pytest.raises(ValueError, match="sync function"):
        mcp.prompt(lambda: "hello", name="hello", task=True)

    @mcp.prompt(task=True)
    async def hello() -> str:
        return "hello"

    @mcp.resource("x://must", task=TaskConfig(mode="required"))
    async def must() -> str:
        return "read"

    @mcp.resource("x://never")
    def never() -> str:
        return "read"

    async def conversation() -> None:
        async with Client(mcp) as client:
            task = await client.get_prompt("hello", task=True)
            assert task.returned_immediately
            assert (await task).messages[0].content.text == "hello"
            assert (await task.status()).status == "completed"
            assert (await client.get_prompt("hello")).messages[0].content.text == "hello"
            assert (await (await client.read_resource("x://must", task=True)))[0].text == "read"
            with pytest.raises(McpError, match="'x://must' requires task-augmented execution"):
                await client.read_resource("x://must")
            with pytest.raises(McpError, match="'x://never' does not support task-augmented execution"):
                await client.read_resource("x://never", task=True)

    asyncio.run(conversation())


def test_a_client_goes_on_while_a_tool_runs() -> None:
    mcp = FastMCP("slow")
    go = asyncio.Event()
    config = TaskConfig("optional", timedelta(milliseconds=20))

    @mcp.tool(task=config)
    async def held(word: str) -> str:
        await go.wait()
        return word

    @mcp.tool(task=config)
    async def broken() -> str:
        raise ValueError("no")

    async def conversation() -> None:
        seen: list[str] = []
        async with Client(mcp) as client:
            task = await client.call_tool("held", {"word": "done"}, task=True)
            task.on_status_change(lambda found: seen.append(found.status))
            assert not task.returned_immediately
            assert (await task.status()).status == "working"
            with pytest.raises(McpError, match="is not over"):
                await client.get_task_result(task.task_id)
            with pytest.raises(TimeoutError, match=task.task_id):
                await task.wait(timeout=0.01)
            assert [one["taskId"] for one in (await client.list_tasks())["tasks"]] == [task.task_id]
            go.set()
            assert (await task.wait(state="completed")).status == "completed"
            assert (await task).data == "done"
            assert seen == ["working", "completed"]
            failing = await client.call_tool("broken", {}, task=True)
            with pytest.raises(ToolError, match="no"):
                await failing.result()
            go.clear()
            stopped = await client.call_tool("held", {"word": "never"}, task=True)
            await stopped.cancel()
            assert (await stopped.status()).status == "cancelled"
            with pytest.raises(McpError, match="Task nobody not found"):
                await client.get_task_status("nobody")
        with pytest.raises(RuntimeError, match="outside client context"):
            await stopped.result()

    asyncio.run(conversation())


def test_a_tool_that_is_no_task_says_so() -> None:
    mcp = FastMCP("plain")
    mcp.tool(lambda: "x", name="x")

    async def conversation() -> None:
        async with Client(mcp) as client:
            task = await client.call_tool("x", task=True)
            assert task.returned_immediately
            assert (await task).is_error
            assert "does not support task-augmented execution" in (await task).content[0].text

    asyncio.run(conversation())


def searched(transform: Any) -> FastMCP[Any]:
    mcp = FastMCP("many", transforms=[transform])

    @mcp.tool
    def send_mail(to: str) -> str:
        """Send an e-mail to somebody."""
        return f"sent to {to}"

    @mcp.tool
    def weather(city: str) -> str:
        """Forecast for a city."""
        return f"rain in {city}"

    @mcp.tool(auth=require_scopes("admin"))
    def mail_everybody() -> str:
        """Send an e-mail to all users."""
        return "sent"

    return mcp


@pytest.mark.parametrize(
    ("transform", "wish"),
    [
        (BM25SearchTransform(always_visible=["weather"]), {"query": "write an email: send mail"}),
        (RegexSearchTransform(always_visible=["weather"]), {"pattern": "e-?mail"}),
    ],
    ids=["bm25", "regex"],
)
def test_tools_are_found_and_called_by_whom_they_are_for(transform: Any, wish: dict[str, str]) -> None:
    async def conversation() -> None:
        async with Native(searched(transform).native) as client:
            assert {one.name for one in await client.list_tools()} == {"weather", "search_tools", "call_tool"}
            found = (await client.call_tool("search_tools", wish)).structured_content["result"]
            assert [one["name"] for one in found] == ["send_mail"]
            assert found[0]["inputSchema"]["required"] == ["to"]
            sent = await client.call_tool("call_tool", {"name": "send_mail", "arguments": {"to": "ann"}})
            assert sent.text == "sent to ann"
            for name in ("mail_everybody", "search_tools"):
                refused = await client.call_tool("call_tool", {"name": name, "arguments": {}}, check=False)
                assert refused.is_error

    asyncio.run(conversation())
