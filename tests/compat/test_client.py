"""`ClientSession` and the ways to a server, over ours."""

import asyncio
import sys
from typing import Any

import pytest

from dovetail.compat.fastmcp import Client, Context, FastMCP
from dovetail.compat.fastmcp.client.messages import MessageHandler
from dovetail.compat.mcp import ClientSession, McpError, StdioServerParameters, types
from dovetail.compat.mcp.client.stdio import get_default_environment, stdio_client
from dovetail.compat.mcp.client.ways import Way
from dovetail.compat.mcp.shared.memory import create_connected_server_and_client_session
from dovetail.compat.mcp.shared.metadata_utils import get_display_name
from tests.compat.test_lowlevel import make
from tests.support.aio import run
from tests.support.waiting import until

CHILD = """
from dovetail import Server
server = Server("child")
@server.tool
def hello(name: str) -> str:
    return f"hello {name}"
server.run()
"""


@run
async def test_a_session_lists_calls_and_reads() -> None:
    async with create_connected_server_and_client_session(make()) as session:
        tools = await session.list_tools()
        assert tools.tools[0].name == "echo"
        result = await session.call_tool("dict", {"a": 1})
        assert result == types.CallToolResult(
            content=[types.TextContent(type="text", text='{\n  "x": 1\n}')], structuredContent={"x": 1}
        )
        assert (await session.call_tool("fail", {"a": 1})).isError
        (content,) = (await session.read_resource("notes://a")).contents
        assert isinstance(content, types.TextResourceContents)
        assert content.text == "read notes://a"


@run
async def test_an_error_of_the_server_is_an_mcp_error() -> None:
    async with create_connected_server_and_client_session(make()) as session:
        with pytest.raises(McpError, match="gone") as caught:
            await session.read_resource("notes://gone")
        assert caught.value.error.code == 4404


@run
async def test_questions_reach_the_callbacks() -> None:
    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert params.message == "How many?"
        return types.ElicitResult(action="accept", content={"n": 7})

    async with create_connected_server_and_client_session(make(), elicitation_callback=answer) as session:
        result = await session.call_tool("ask", {"a": 1})
        assert result.content == [types.TextContent(type="text", text="accept {'n': 7}")]


@run
async def test_a_client_that_cannot_be_asked_is_an_error_of_the_handler() -> None:
    async with create_connected_server_and_client_session(make()) as session:
        with pytest.raises(McpError, match="elicitation"):
            await session.call_tool("ask", {"a": 1})


@run
async def test_a_child_process_is_started_by_the_session() -> None:
    parameters = StdioServerParameters(
        command=sys.executable, args=["-c", CHILD], env={"PYTHONPATH": sys.path[0]}
    )
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        told = await session.initialize()
        assert told.serverInfo.name == "child"
        result = await session.call_tool("hello", {"name": "Ada"})
        assert result.content == [types.TextContent(type="text", text="hello Ada")]


def test_a_child_knows_little_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    assert "SECRET_TOKEN" not in get_default_environment()
    assert "PATH" in get_default_environment()


def test_a_title_is_shown_before_a_name() -> None:
    tool = types.Tool(name="add", inputSchema={}, annotations=types.ToolAnnotations(title="Add"))
    assert get_display_name(tool) == "Add"
    assert get_display_name(types.Tool(name="add", title="Sum", inputSchema={})) == "Sum"
    assert get_display_name(types.Prompt(name="ask")) == "ask"


class Hearing(MessageHandler):
    def __init__(self) -> None:
        self.heard: list[str] = []

    async def on_message(self, message: types.ServerNotification) -> None:
        self.heard.append(message.root.method)

    async def on_logging_message(self, message: types.LoggingMessageNotification) -> None:
        self.heard.append(message.params.data["msg"])

    async def on_tool_list_changed(self, message: types.ToolListChangedNotification) -> None:
        self.heard.append("tools")


CHANGED = "notifications/tools/list_changed"


def growing() -> FastMCP[Any]:
    mcp = FastMCP("growing")

    @mcp.tool
    async def grow(ctx: Context) -> str:
        await ctx.info("growing")
        mcp.tool(len, name="more")
        return "grown"

    return mcp


@run
async def test_a_message_handler_hears_of_logs_and_of_lists_that_changed() -> None:
    hearing, logs = Hearing(), list[Any]()
    async with Client(growing(), message_handler=hearing, log_handler=logs.append) as client:
        await client.call_tool("grow")
        await until(lambda: len(hearing.heard) >= 4)
    assert sorted(hearing.heard) == ["growing", "notifications/message", CHANGED, "tools"]
    assert [said.data["msg"] for said in logs] == ["growing"]


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_the_handler_of_a_session_hears_of_lists_that_changed(revision: str) -> None:
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(message.root.method)

    way = Way(growing().native, {"revision": revision})
    async with ClientSession(way, way, message_handler=hear) as session:
        await session.initialize()
        async with asyncio.timeout(30):
            while CHANGED not in heard:  # on 2026-07-28 news come once the subscription stands
                await session.call_tool("grow", {})
