"""`ClientSession` and the ways to a server, over ours."""

import asyncio
import datetime
import sys
from typing import Any

import pytest

from dovetail.compat.fastmcp import Client, Context, FastMCP
from dovetail.compat.fastmcp.client.messages import MessageHandler
from dovetail.compat.mcp import ClientSession, ClientSessionGroup, McpError, StdioServerParameters, types
from dovetail.compat.mcp.client.session_group import ClientSessionParameters
from dovetail.compat.mcp.client.sse import sse_client
from dovetail.compat.mcp.client.stdio import get_default_environment, stdio_client
from dovetail.compat.mcp.client.streamable_http import streamablehttp_client
from dovetail.compat.mcp.client.ways import Way
from dovetail.compat.mcp.shared.memory import create_connected_server_and_client_session
from dovetail.compat.mcp.shared.metadata_utils import get_display_name
from tests.compat.test_lowlevel import make
from tests.support.aio import run
from tests.support.waiting import HANG, until

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
        async with asyncio.timeout(HANG):
            while CHANGED not in heard:  # on 2026-07-28 news come once the subscription stands
                await session.call_tool("grow", {})


def slow(until: asyncio.Event) -> FastMCP[Any]:
    mcp = FastMCP("slow")

    @mcp.tool
    async def wait() -> str:
        await until.wait()
        return "done"

    @mcp.resource("slow://one")
    async def one() -> str:
        await until.wait()
        return "done"

    return mcp


@run
async def test_every_request_of_a_session_ends_with_its_time() -> None:
    released = asyncio.Event()
    way = Way(slow(released).native)
    async with ClientSession(way, way, datetime.timedelta(seconds=1)) as session:
        await session.initialize()
        for ask in (session.call_tool("wait"), session.read_resource("slow://one")):
            with pytest.raises(McpError) as caught:
                async with asyncio.timeout(HANG):
                    await ask
            assert caught.value.error.code == 408
        released.set()
        assert (await session.call_tool("wait")).content[0].text == "done"


@run
async def test_a_server_that_is_silent_longer_than_it_may_has_not_answered() -> None:
    released = asyncio.Event()
    way = Way(slow(released).native, silence=1)
    async with ClientSession(way, way) as session:
        await session.initialize()
        with pytest.raises(McpError) as caught:
            async with asyncio.timeout(HANG):
                await session.call_tool("wait")
        assert caught.value.error.code == 408
        released.set()


@run
async def test_the_times_of_theirs_are_those_of_the_way() -> None:
    minute = datetime.timedelta(minutes=1)
    async with streamablehttp_client("http://127.0.0.1:9/mcp", sse_read_timeout=minute) as (way, _, _):
        assert way.silence == 60
    async with sse_client("http://127.0.0.1:9/sse") as (way, _):
        assert way.silence == 300
    async with stdio_client(StdioServerParameters(command="none")) as (way, _):
        assert way.silence is None


def child() -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=["-c", CHILD])


@run
async def test_a_group_calls_the_tools_of_all_its_servers() -> None:
    async with ClientSessionGroup(component_name_hook=lambda name, info: f"{info.name}_{name}") as group:
        first = await group.connect_to_server(child())
        way = Way(slow(asyncio.Event()).native)
        async with ClientSession(way, way) as own:
            info = (await own.initialize()).serverInfo
            await group.connect_with_session(info, own)
            assert (sorted(group.tools), sorted(group.resources)) == (
                ["child_hello", "slow_wait"],
                ["slow_one"],
            )
            done = await group.call_tool("child_hello", {"name": "Ada"})
            assert done.content[0].text == "hello Ada"
            await group.disconnect_from_server(first)
            assert (sorted(group.tools), group.sessions) == (["slow_wait"], [own])
            with pytest.raises(McpError, match="already disconnected"):
                await group.disconnect_from_server(first)


@run
async def test_a_name_that_two_servers_share_is_refused_and_the_second_is_let_go() -> None:
    async with ClientSessionGroup() as group:
        await group.connect_to_server(child())
        with pytest.raises(McpError, match="already exist in group tools"):
            await group.connect_to_server(child(), ClientSessionParameters())
        assert len(group.sessions) == 1
