"""How a definition of FastMCP is written, and which code an error has: what comparing with the originals found."""

from __future__ import annotations

from typing import Any, Final, TypedDict

import pytest

from dovetail import Client as Native
from dovetail import ProtocolError
from dovetail.compat.fastmcp import Client, FastMCP
from dovetail.compat.fastmcp.utilities.docstrings import parse
from dovetail.compat.mcp import types
from dovetail.compat.mcp.client.session import ClientSession, refused
from dovetail.compat.mcp.client.ways import Way
from dovetail.compat.mcp.server.fastmcp import Context as SdkContext
from dovetail.compat.mcp.server.fastmcp import FastMCP as SdkFastMCP
from dovetail.compat.mcp.server.fastmcp.exceptions import InvalidSignature
from dovetail.compat.mcp.server.fastmcp.resources import FunctionResource
from dovetail.compat.mcp.server.fastmcp.utilities.func_metadata import func_metadata
from dovetail.compat.mcp.server.lowlevel import Server
from dovetail.compat.mcp.shared.exceptions import McpError
from dovetail.compat.mcp.shared.memory import create_connected_server_and_client_session
from tests.support.aio import run
from tests.support.waiting import until

GOOGLE = """Do.

Args:
    a: one
           two
        three
      four
    b (int): five \u0020
    c:
        six

Returns:
    z
"""


def test_lines_below_a_parameter_lose_one_margin_and_keep_the_rest() -> None:
    said = {"a": "one\n   two\nthree\nfour", "b": "five  ", "c": "\nsix"}
    assert parse(GOOGLE) == ("Do.", said)


def test_a_heading_without_an_empty_line_before_it_is_text() -> None:
    doc = "Do it.\nArgs:\n    a: one"
    assert parse(doc) == (doc, {})


@run
async def test_the_title_of_annotations_is_the_tools() -> None:
    mcp = FastMCP("titles")

    @mcp.tool(annotations={"title": "Two Words"})
    def two() -> int:
        return 2

    async with Client(mcp) as client:
        assert (await client.list_tools())[0].title == "Two Words"


@run
async def test_an_output_schema_of_the_authors_is_written_out_as_well() -> None:
    item = {"type": "object", "properties": {"x": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"i": {"$ref": "#/$defs/Item"}}, "$defs": {"Item": item}}

    def offered(**options: Any) -> FastMCP[Any]:
        mcp = FastMCP("schemas", **options)
        mcp.tool(lambda: {"i": {"x": 1}}, name="one", output_schema=schema)
        return mcp

    async with Client(offered()) as client:
        shown = (await client.list_tools())[0].outputSchema
    assert shown == {"type": "object", "properties": {"i": item}}
    async with Client(offered(dereference_schemas=False)) as client:
        assert (await client.list_tools())[0].outputSchema == schema


class Person(TypedDict, total=False):
    name: str


def test_what_a_typed_dict_may_lack_has_a_default() -> None:
    def person() -> Person: ...

    shown = func_metadata(person).output_schema
    assert shown is not None
    assert shown["properties"]["name"] == {"title": "Name", "type": "string", "default": None}


def test_a_qualifier_is_no_type_to_return() -> None:
    def function() -> Final[int]:  # pyright: ignore[reportGeneralTypeIssues, reportInvalidTypeForm]
        ...

    with pytest.raises(InvalidSignature, match="invalid type qualifier"):
        func_metadata(function)


def test_a_resource_has_a_name_or_an_address() -> None:
    with pytest.raises(ValueError, match="Either name or uri must be provided"):
        FunctionResource(fn=lambda: "data")  # pyright: ignore[reportCallIssue]


def low(code: int) -> Server[Any, Any]:
    server: Server[Any, Any] = Server("codes")

    @server.read_resource()
    async def read_resource(uri: Any) -> str:
        raise McpError(types.ErrorData(code=code, message="no", data={"why": "because"}))

    return server


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("code", [-32001, -32042, 7, -32602])
@run
async def test_the_code_of_an_mcp_error_is_found_again_in_every_era(code: int, revision: str) -> None:
    async with Native(low(code).native, revision=revision) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.read_resource("x://y")
    error = refused(caught.value).error
    assert (error.code, error.message, error.data) == (code, "no", {"why": "because"})


@run
async def test_sessions_in_memory_speak_the_newest_revision_of_theirs() -> None:
    async with create_connected_server_and_client_session(low(-32001)) as session:
        assert (await session.initialize()).protocolVersion == types.LATEST_PROTOCOL_VERSION
        with pytest.raises(McpError) as caught:
            await session.read_resource("x://y")
    assert caught.value.error.code == -32001


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@run
async def test_a_message_handler_hears_of_the_log_in_every_era(revision: str) -> None:
    mcp = SdkFastMCP("talking")

    @mcp.tool()
    async def talk(ctx: SdkContext[Any, Any, Any]) -> str:
        await ctx.info("hello")
        return "done"

    heard: list[Any] = []

    async def handler(message: Any) -> None:
        heard.append(message.root.params.data)

    way = Way(mcp.native, {"revision": revision})
    async with ClientSession(way, way, message_handler=handler) as session:
        await session.initialize()
        await session.call_tool("talk", {})
        await until(lambda: heard == ["hello"])


def test_a_session_manager_says_what_it_was_told() -> None:
    manager = SdkFastMCP(
        "bounds", max_request_body_size=8, session_idle_timeout=5, max_sessions=7
    ).session_manager
    assert (manager.max_request_body_size, manager.session_idle_timeout, manager.max_sessions) == (8, 5, 7)
