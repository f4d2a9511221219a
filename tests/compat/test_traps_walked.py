"""What was seen when servers were recorded on their originals, walked from the command line to a client's eyes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client
from tests.support.aio import run
from tests.support.waiting import until

from .miniature import HERE
from .test_http_glue import free_port, listens
from .test_program import COMMAND, target, write

ERAS = ("2025-06-18", "2026-07-28")
ENVIRONMENT = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}

BOTH = """
import asyncio
import anyio
from {package} import FastMCP

mcp = FastMCP("wins")

@mcp.tool()
def hello() -> str:
    return "hello"

"""
SDK, NEW = "mcp.server.fastmcp", "fastmcp"
ASK_HTTP = {
    "run(transport=) of the SDK": (SDK, "mcp.run(transport='streamable-http')"),
    "run(transport=) of FastMCP": (NEW, "mcp.run(transport='http', host='127.0.0.1', port=1)"),
    "run_async": (NEW, "asyncio.run(mcp.run_async(transport='sse', port=1))"),
    "run_streamable_http_async": (SDK, "anyio.run(mcp.run_streamable_http_async)"),
    "an application of the SDK": (SDK, "import uvicorn\nuvicorn.run(mcp.streamable_http_app(), port=1)"),
    "an application of FastMCP": (NEW, "import uvicorn\nuvicorn.run(mcp.http_app(), port=1)"),
    "an application for SSE": (SDK, "import uvicorn\nuvicorn.run(mcp.sse_app(), port=1)"),
}
ASK_STDIO = {
    "run_stdio_async of the SDK": (SDK, "anyio.run(mcp.run_stdio_async)"),
    "run_stdio_async of FastMCP": (NEW, "asyncio.run(mcp.run_stdio_async())"),
    "run()": (NEW, "mcp.run()"),
}


def program(folder: Path, way: tuple[str, str]) -> Path:
    return write(folder, BOTH.format(package=way[0]) + way[1])


@pytest.mark.parametrize("way", ASK_HTTP)
@run
async def test_stdio_of_our_command_line_wins_over_a_program_that_asks_for_http(
    tmp_path: Path, way: str
) -> None:
    async with Client(target(program(tmp_path, ASK_HTTP[way]), folder=tmp_path)) as client:
        assert (await client.call_tool("hello")).text == "hello"


@pytest.mark.parametrize("way", ASK_STDIO)
@run
async def test_a_socket_of_our_command_line_wins_over_a_program_that_asks_for_stdio(
    tmp_path: Path, way: str
) -> None:
    path, address = program(tmp_path, ASK_STDIO[way]), tmp_path / "socket"
    child = await asyncio.create_subprocess_exec(*COMMAND, path, "--unix", address)
    try:
        await until(address.exists, 60.0)
        async with Client(f"unix://{address}") as client:
            assert (await client.call_tool("hello")).text == "hello"
    finally:
        child.terminate()
        await child.wait()


WAYS = """
import sys
from typing import Any
import mcp.types as types
from fastmcp import FastMCP
from mcp.server.fastmcp import FastMCP as SdkFastMCP
from mcp.server.lowlevel import Server

new, old, low = FastMCP("new"), SdkFastMCP("old"), Server("low")

for server in (new, old):
    @server.tool()
    def add(a: int, b: int) -> str:
        return str(a + b)

    @server.tool()
    def listed(values: list[int]) -> Any:
        return [{"value": one} for one in values]

    @server.tool()
    def bare() -> dict:
        return {"a": 1}

    @server.tool()
    def typed() -> dict[str, Any]:
        return {"a": 1}

    @server.tool()
    def fails() -> str:
        raise ValueError("out of paper")

@low.list_tools()
async def list_tools():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    tool = types.Tool(name="add", inputSchema=schema, _meta={"kept": True})
    copy = tool.model_copy(update={"name": "copied"})
    assert copy.model_dump(by_alias=True, exclude_none=True)["_meta"] == {"kept": True}
    return [tool, copy]

@low.call_tool()
async def call_tool(name, arguments):
    if arguments["a"] == 0:
        raise ValueError("out of paper")
    return [types.TextContent(type="text", text=f"{name} {arguments['a']}")]

@low.list_resources()
async def list_resources():
    return [types.Resource(uri="note://one", name="one")]

@low.read_resource()
async def read_resource(uri):
    return f"{type(uri).__name__} {uri.scheme} {uri.host}"
"""


async def calls(client: Client, *asked: tuple[str, dict[str, Any]]) -> list[tuple[bool, list[str], Any]]:
    """Of each call: whether it failed, its texts, its structured content."""
    found = [await client.call_tool(name, given, check=False) for name, given in asked]
    return [
        (one.is_error, [block.text for block in one.content], one.structured_content or None) for one in found
    ]


@pytest.mark.parametrize("revision", ERAS)
@run
async def test_fastmcp_converts_arguments_refuses_unknown_ones_and_writes_compact_json(
    tmp_path: Path, revision: str
) -> None:
    path = write(tmp_path, WAYS)
    async with Client(target(f"{path}:new", folder=tmp_path), revision=revision) as client:
        added, unknown, listed, failed, nothing = await calls(
            client,
            ("add", {"a": "3", "b": 4}),
            ("add", {"a": 3, "b": 4, "c": 5}),
            ("listed", {"values": [1, 2]}),
            ("fails", {}),
            ("no_such_tool", {}),
        )
    assert added[:2] == (False, ["7"])
    assert unknown[0]
    assert "Unexpected keyword argument" in unknown[1][0]
    assert listed[:2] == (False, ['[{"value":1},{"value":2}]'])
    assert failed[0]
    assert "out of paper" in failed[1][0]
    assert nothing[0]
    assert "no_such_tool" in nothing[1][0]


@pytest.mark.parametrize("revision", ERAS)
@run
async def test_the_sdk_ignores_unknown_arguments_parses_json_inside_strings_and_indents(
    tmp_path: Path, revision: str
) -> None:
    path = write(tmp_path, WAYS)
    async with Client(target(f"{path}:old", folder=tmp_path), revision=revision) as client:
        added, listed, bare, typed, failed, nothing = await calls(
            client,
            ("add", {"a": 3, "b": 4, "c": 5}),
            ("listed", {"values": "[1, 2]"}),
            ("bare", {}),
            ("typed", {}),
            ("fails", {}),
            ("no_such_tool", {}),
        )
    assert added[:2] == (False, ["7"])
    assert listed[:2] == (False, ['{\n  "value": 1\n}', '{\n  "value": 2\n}'])
    assert bare == (False, ['{\n  "a": 1\n}'], None)
    assert typed == (False, ['{\n  "a": 1\n}'], {"a": 1})
    assert failed[:2] == (True, ["Error executing tool fails: out of paper"])
    assert nothing[:2] == (True, ["Unknown tool: no_such_tool"])


@pytest.mark.parametrize("revision", ERAS)
@run
async def test_the_low_level_validates_by_schema_and_its_types_are_pydantic(
    tmp_path: Path, revision: str
) -> None:
    path = write(tmp_path, WAYS)
    async with Client(target(f"{path}:low", folder=tmp_path), revision=revision) as client:
        shown = {tool.name: tool for tool in await client.list_tools()}
        assert shown["copied"].meta == {"kept": True}
        right, text, missing, failed = await calls(
            client, ("add", {"a": 1}), ("add", {"a": "1"}), ("add", {}), ("add", {"a": 0})
        )
        contents = (await client.read_resource("note://one")).contents
    assert right[:2] == (False, ["add 1"])
    assert text[:2] == (True, ["Input validation error: '1' is not of type 'integer'"])
    assert missing[:2] == (True, ["Input validation error: 'a' is a required property"])
    assert failed[:2] == (True, ["out of paper"])
    assert contents[0].text == "AnyUrl note one"


STATE = """
from fastmcp import Context, FastMCP

mcp = FastMCP("state")

@mcp.tool()
async def kept(ctx: Context) -> str:
    {set}ctx.set_state("a", 1)
    return str({get}ctx.get_state("a"))

mcp.run()
"""


@pytest.mark.parametrize(("generation", "word"), [("2", ""), ("3", "await ")])
@run
async def test_state_is_plain_in_fastmcp_2_and_awaited_in_3(
    tmp_path: Path, generation: str, word: str
) -> None:
    path = write(tmp_path, STATE.format(set=word, get=word))
    environment = {**ENVIRONMENT, "DOVETAIL_FASTMCP": generation}
    async with Client([*COMMAND, str(path)], env=environment) as client:
        assert (await client.call_tool("kept")).text == "1"


@pytest.mark.parametrize("name", ["mcp", "sdk"])
@run
async def test_what_an_author_changes_inside_is_what_a_client_sees(name: str) -> None:
    """``mcp.tool`` replaced, ``__signature__`` rewritten, attributes before ``super().__init__`` and on the session,
    ``_mcp_server`` and ``_tool_manager``."""
    path = HERE / "miniatures" / "patched.py"
    async with Client([*COMMAND, f"{path}:{name}"], env=ENVIRONMENT, revision="2025-11-25") as client:
        assert [tool.name for tool in await client.list_tools()] == (
            ["shout", "find"] if name == "mcp" else ["find"]
        )
        assert (await client.call_tool("find", {"query": "a"})).text == "a 3 secret!"
        if name == "mcp":
            assert [(await client.call_tool("visits")).text for _ in range(2)] == ["1!", "2!"]


OWN_APP = """
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from {package} import FastMCP

class Own(FastMCP):
    def {name}(self, *given, **named):
        app = super().{name}(*given, **named)
        app.router.routes.insert(0, Route("/own", lambda request: PlainTextResponse("mine")))
        return app

mcp = Own("own")

@mcp.tool()
def hello() -> str:
    return "hello"

mcp.run(transport="streamable-http")
"""


@pytest.mark.parametrize(("package", "name"), [(NEW, "http_app"), (SDK, "streamable_http_app")])
@run
async def test_an_application_that_a_subclass_makes_is_the_one_that_is_served(
    tmp_path: Path, package: str, name: str
) -> None:
    path, port = write(tmp_path, OWN_APP.format(package=package, name=name)), free_port()
    child = await asyncio.create_subprocess_exec(*COMMAND, path, "--http", "--port", str(port))
    try:
        await until(lambda: listens(port), 60.0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /own HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"mine")
        writer.close()
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            assert (await client.call_tool("hello")).text == "hello"
    finally:
        child.terminate()
        await child.wait()
