"""The low-level `Server` of SDK 1.x over ours: what its handlers return and raise, on three revisions."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dovetail import Client, ProtocolError
from dovetail.compat.mcp import types
from dovetail.compat.mcp.server.lowlevel import NotificationOptions, Server
from dovetail.compat.mcp.server.lowlevel.helper_types import ReadResourceContents
from dovetail.compat.mcp.server.session import ServerSession
from dovetail.compat.mcp.server.stdio import StdioStream
from dovetail.compat.mcp.shared.exceptions import McpError
from tests.support.aio import run

REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
OUTPUT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


def text(words: str) -> list[types.TextContent]:
    return [types.TextContent(type="text", text=words)]


def make() -> Server[Any, Any]:
    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[dict[str, str], None]:
        yield {"database": "open"}

    server = Server("low", "1.2.3", lifespan=lifespan)

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return [
            types.Tool(
                name=name, inputSchema=SCHEMA, outputSchema=OUTPUT if name.startswith("checked") else None
            )
            for name in ("echo", "dict", "both", "fail", "checked", "life", "ask", "nothing")
        ]

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        match name:
            case "dict":
                return {"x": arguments["a"]}
            case "both":
                return text("z"), {"x": 3}
            case "fail":
                raise ValueError("boo")
            case "checked":
                return {"x": arguments["a"]} if arguments["a"] else {"x": "no"}
            case "life":
                return text(server.request_context.lifespan_context["database"])
            case "ask":
                session = server.request_context.session
                answer = await session.elicit("How many?", {"type": "object", "properties": {}})
                return text(f"{answer.action} {answer.content}")
            case "nothing":
                return None
            case _:
                return text(f"{name} {arguments}")

    @server.list_resources()
    async def list_resources() -> list[types.Resource]:
        return [types.Resource.model_validate({"uri": "notes://a", "name": "a"})]

    @server.read_resource()
    async def read_resource(uri: Any) -> Any:
        if str(uri) == "notes://gone":
            raise McpError(types.ErrorData(code=4404, message="gone", data={"uri": str(uri)}))
        if str(uri) == "notes://broken":
            raise KeyError("broken")
        return [ReadResourceContents(content=f"read {uri}", mime_type="text/markdown")]

    return server


def connect(revision: str) -> Client:
    return Client(make().native, revision=revision, on_elicit=lambda _: {"n": 3})


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_it_says_who_it_is_and_what_it_has_handlers_for(revision: str) -> None:
    async with connect(revision) as client:
        assert client.server_info["name"] == "low"
        assert client.server_info["version"] == "1.2.3"
        assert client.server_capabilities.has("tools")
        assert client.server_capabilities.has("resources")
        assert not client.server_capabilities.has("prompts")


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_what_a_handler_returns_becomes_content_and_structure(revision: str) -> None:
    async with connect(revision) as client:
        assert (await client.call_tool("echo", {"a": 1})).text == "echo {'a': 1}"
        result = await client.call_tool("dict", {"a": 1})
        assert (result.text, result.data) == ('{\n  "x": 1\n}', {"x": 1})
        result = await client.call_tool("both", {"a": 1})
        assert (result.text, result.data) == ("z", {"x": 3})


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("fail", {"a": 1}, "boo"),
        ("echo", {}, "Input validation error: 'a' is a required property"),
        ("echo", {"a": "1"}, "Input validation error: '1' is not of type 'integer'"),
        ("checked", {"a": 0}, "Output validation error: 'no' is not of type 'integer'"),
        ("nothing", {"a": 1}, "Unexpected return type from tool: NoneType"),
    ],
)
@run
async def test_what_goes_wrong_in_a_tool_is_its_result(
    revision: str, name: str, arguments: dict[str, Any], words: str
) -> None:
    async with connect(revision) as client:
        result = await client.call_tool(name, arguments, check=False)
        assert (result.is_error, result.text) == (True, words)


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_a_tool_that_is_not_listed_is_called_unchecked(revision: str) -> None:
    async with connect(revision) as client:
        assert (await client.call_tool("unlisted", {"b": 1})).text == "unlisted {'b': 1}"


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_the_lifespan_is_seen_from_a_handler(revision: str) -> None:
    async with connect(revision) as client:
        assert (await client.call_tool("life", {"a": 1})).text == "open"


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_a_question_to_the_user_works_in_every_era(revision: str) -> None:
    async with connect(revision) as client:
        assert (await client.call_tool("ask", {"a": 1})).text == "accept {'n': 3}"


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_resources_are_read_with_their_media_type(revision: str) -> None:
    async with connect(revision) as client:
        (content,) = (await client.read_resource("notes://a")).contents
        assert (content.mime_type, content.text) == ("text/markdown", "read notes://a")


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_an_mcp_error_reaches_the_client_as_it_is(revision: str) -> None:
    async with connect(revision) as client:
        with pytest.raises(ProtocolError, match="gone") as caught:
            await client.read_resource("notes://gone")
        assert (caught.value.code, caught.value.data["uri"]) == (4404, "notes://gone")


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_other_exceptions_have_code_zero_and_their_own_text(revision: str) -> None:
    async with connect(revision) as client:
        with pytest.raises(ProtocolError, match="'broken'") as caught:
            await client.read_resource("notes://broken")
        assert caught.value.code == 0


def test_capabilities_follow_the_handlers_and_the_options() -> None:
    told = make().get_capabilities(NotificationOptions(tools_changed=True), {"x": {}})
    assert told.tools == types.ToolsCapability(listChanged=True)
    assert told.prompts is None
    assert told.experimental == {"x": {}}


def test_outside_of_a_request_there_is_no_context() -> None:
    with pytest.raises(LookupError):
        _ = make().request_context


@run
async def test_a_session_that_a_program_makes_itself_is_refused_with_what_to_do() -> None:
    options = Server("raw").create_initialization_options()
    with pytest.raises(TypeError, match=r"Server and call its run\(read_stream"):
        ServerSession(object(), object(), options)  # type: ignore[arg-type]
    stream = StdioStream()
    with pytest.raises(TypeError, match="yields no messages here"):
        async for _ in stream:
            pass
    with pytest.raises(TypeError, match="takes no messages here"):
        await stream.send("hello")
