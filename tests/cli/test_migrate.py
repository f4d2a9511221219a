"""A server written for others becomes a native one that says the same; what cannot be migrated is marked."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.cli.main import main
from dovetail.cli.migrate import marks, migrated
from tests.compat.miniature import HERE, answers, recorded

WHOLE = ["fastmcp/resources", "fastmcp/signatures", "sdk/resources", "sdk/returns", "sdk/signatures"]
"""Miniatures of which nothing is left to do by hand."""
MARKED = {
    "fastmcp/failures": "PromptError",
    "fastmcp/masked": "PromptError",
    "fastmcp/registering": "exclude_args",
    "fastmcp/returns": "ToolResult",
    "sdk/failures": "ResourceError",
    "sdk/registering": "registered twice",
}
STRICTER = [
    {"a": 1, "c": 1},
    {"topic": "a", "other": "b"},
]
"""Arguments that Dovetail refuses by design: unknown names."""
COERCED = [
    {"point": '{"x": 1}', "box": {"width": "2"}, "color": "blue", "when": "2024-05-06", "either": "x"},
    {"point": {"x": 1}, "box": {"width": 2}, "many": '[{"x": 3}]', "table": '{"a": 1}'},
    {"values": "[1, 2]"},
]
"""Texts for lists and objects: Dovetail reads them as the declared types, as some versions of the originals do."""
OTHERWISE = {
    "some_bytes": ["YWJj"],  # bytes are base64 in JSON
    "typed": [
        {"role": "user", "content": {"type": "text", "text": "[1, 2] 4"}}
    ],  # JSON in arguments of prompts is read
}
"""What the SDK's class says otherwise, and ours."""


def miniature(name: str) -> Path:
    return HERE / "miniatures" / f"{name}.py"


def native(source: bytes, name: str) -> ModuleType:
    module = ModuleType(f"migrated_{name.replace('/', '_')}")
    sys.modules[module.__name__] = module
    exec(compile(source, name, "exec"), vars(module))
    return module


def said(result: dict[str, Any]) -> Any:
    """What an answer says, whatever its layout: a list is one block here and several there."""
    if "error" in result or result.get("isError"):
        return "failed"
    if "messages" in result:
        return result["messages"]
    found: list[Any] = []
    for block in result.get("contents") or result["content"]:
        value: Any = block.get("blob") or block.get("data") or block.get("resource")
        if "text" in block:
            try:
                value = json.loads(block["text"])
            except ValueError:
                value = block["text"]
        found += value if isinstance(value, list) else [] if value is None else [value]
    return found


def plain(schema: Any, definitions: dict[str, Any]) -> Any:
    """A schema without its prose, written out."""
    if isinstance(schema, list):
        return [plain(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        return plain({**definitions[schema["$ref"].rpartition("/")[2]], **rest}, definitions)
    if {} in schema.get("anyOf", ()):
        return {"default": schema["default"]}  # anything or nothing is anything
    prose = {"$defs", "additionalProperties", "title", "description"}
    return {name: plain(value, definitions) for name, value in schema.items() if name not in prose}


def written_out(tool: dict[str, Any]) -> Any:
    return plain(tool["inputSchema"], tool["inputSchema"].get("$defs", {}))


@pytest.mark.parametrize("name", WHOLE)
def test_a_migrated_miniature_says_what_it_said_before(name: str) -> None:
    source = migrated(miniature(name).read_bytes())
    assert marks(source) == []
    assert b"from fastmcp" not in source
    assert b"from mcp" not in source
    module = native(source, name)
    family, _, stem = name.partition("/")
    ours = asyncio.run(answers(module))
    theirs = recorded("fastmcp3" if family == "fastmcp" else family, stem)
    for kind, members in (
        ("tools", ("name", "title")),
        ("prompts", ("name", "title")),
        ("resources", ("uri", "name")),
    ):
        listed = [
            [[one.get(m) for m in members] for one in side[kind].get(kind, [])] for side in (ours, theirs)
        ]
        assert listed[0] == listed[1]
    for mine, other in zip(ours["tools"].get("tools", []), theirs["tools"].get("tools", []), strict=True):
        assert mine.get("description", "") == other.get("description", "") or name.startswith("sdk")
        if mine["name"] == "untyped" and name.startswith("sdk"):
            continue  # the SDK says text and takes anything
        assert written_out(mine) == written_out(other), mine["name"]
    for kind in ("calls", "reads", "gets"):
        for mine, other in zip(ours[kind], theirs[kind], strict=True):
            if mine[1] in STRICTER:
                assert said(mine[-1]) == "failed", mine
            elif mine[1] in COERCED:
                assert said(mine[-1]) != "failed", mine
            elif said(mine[-1]) != said(other[-1]):
                assert name.startswith("sdk"), mine
                assert said(mine[-1]) == OTHERWISE[mine[0]], mine


@pytest.mark.parametrize("name", MARKED)
def test_what_cannot_be_carried_over_is_marked_and_stays(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["migrate", str(miniature(name))]) == 1
    out, err = capsys.readouterr()
    assert MARKED[name] in err
    assert out.startswith(f"--- {miniature(name)}\n+++ ")
    source = migrated(miniature(name).read_bytes())
    line, text = marks(source)[0]
    assert source.decode().splitlines()[line - 1].strip() == f"# dovetail: {text}"
    assert f"{miniature(name)}:{line}: {text}" in err


@pytest.mark.parametrize("name", [*WHOLE, *MARKED])
def test_migrating_twice_changes_nothing(name: str) -> None:
    once = migrated(miniature(name).read_bytes())
    assert migrated(once) == once


OLD = """\
#!/usr/bin/env python
\"\"\"Notes.\"\"\"

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# the server's class
from mcp.server.fastmcp import Context, FastMCP  # from the SDK
from mcp.server.session import ServerSession
import mcp.types as types
from starlette.requests import Request
from starlette.responses import JSONResponse

NOTES = {"a": "first"}   # all of them


@asynccontextmanager
async def lifespan(server: FastMCP) -> AsyncIterator[dict]:
    yield NOTES


mcp = FastMCP("notes", "Keeps notes.", lifespan=lifespan, host="0.0.0.0", port=9000, log_level="DEBUG")


@mcp.tool(structured_output=False)
async def read(key: str, ctx: Context[ServerSession, dict]) -> str:
    await ctx.info("reading", logger_name="notes")
    return ctx.request_context.lifespan_context[key]


@mcp.tool()
def shout(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text.upper())


@mcp.custom_route("/health", methods=["GET"], include_in_schema=False)
async def health(request: Request) -> JSONResponse:
    return JSONResponse({"said": request.query_params["x"]}, status_code=201)


if __name__ == "__main__":
    mcp.run(transport="streamable-http")
"""
NEW = """\
#!/usr/bin/env python
\"\"\"Notes.\"\"\"

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# the server's class
from dovetail import Context, RouteRequest, RouteResponse, Server, TextContent  # from the SDK

NOTES = {"a": "first"}   # all of them


@asynccontextmanager
async def lifespan(server: Server) -> AsyncIterator[dict]:
    yield NOTES


mcp = Server("notes", instructions="Keeps notes.", lifespan=lifespan)


@mcp.tool(structured=False)
async def read(key: str, ctx: Context) -> str:
    await ctx.info("reading", logger="notes")
    return ctx.lifespan[key]


@mcp.tool()
def shout(text: str) -> TextContent:
    return TextContent(text=text.upper())


@mcp.route("/health", methods=["GET"])
async def health(request: RouteRequest) -> RouteResponse:
    return RouteResponse({"said": request.query["x"]}, status=201)


if __name__ == "__main__":
    mcp.run("http", host="0.0.0.0", port=9000)
"""


def test_comments_and_layout_stay_and_the_result_runs() -> None:
    assert migrated(OLD.encode()).decode() == NEW

    async def talk(server: Server) -> None:
        async with Client(server) as client:
            assert (await client.call_tool("read", {"key": "a"})).text == "first"
            assert (await client.call_tool("shout", {"text": "hi"})).text == "HI"

    asyncio.run(talk(native(NEW.encode(), "notes").mcp))


def test_lines_end_as_they_did() -> None:
    source = migrated(
        OLD.replace("streamable-http", 'streamable-http", mount="/x').replace("\n", "\r\n").encode()
    )
    assert marks(source)
    assert source.count(b"\n") == source.count(b"\r\n")
    assert source.decode().replace("\r\n", "\n").startswith(NEW[: NEW.index("if __name__")])


FASTMCP = """\
import fastmcp
from fastmcp import Context, FastMCP
from fastmcp.server.middleware import Middleware


class Server:
    pass


inner = fastmcp.FastMCP(name="inner")
main = FastMCP(
    name="main",
    mask_error_details=True,  # in production
    middleware=[Middleware()],
)
main.mount("inner", inner)


@main.tool
async def count(ctx: Context) -> int:
    before = ctx.get_state("n") or 0
    ctx.set_state("n", before + 1)
    await ctx.log("counted")
    answer = await ctx.elicit("more?", response_type=bool)
    await ctx.read_resource("x://y")
    return before


@main.resource("files://{path*}")
def files(path: str) -> str:
    return path


async def serve() -> None:
    await main.run_async(transport="http", port=80, show_banner=False)
"""
MIGRATED = """\
import dovetail
from dovetail import Context
# dovetail: fastmcp.server.middleware.Middleware has no counterpart in Dovetail: \
write a Middleware for Server(middleware=[…])
from fastmcp.server.middleware import Middleware


class Server:
    pass


inner = dovetail.Server(name="inner")
# dovetail: middleware cannot be migrated
main = dovetail.Server(
    name="main",
    mask_errors=True,  # in production
    middleware=[Middleware()],
)
main.mount(inner, "inner")


@main.tool
async def count(ctx: Context) -> int:
    before = (await ctx.state.get("n")) or 0
    await ctx.state.set("n", before + 1)
    await ctx.log(data="counted", level="info")
    answer = await ctx.elicit("more?", schema=bool)
    # dovetail: read_resource of ctx has no counterpart in Dovetail
    await ctx.read_resource("x://y")
    return before


@main.resource("files://{+path}")
def files(path: str) -> str:
    return path


async def serve() -> None:
    await main.serve("http", port=80)
"""


def test_names_that_are_taken_are_said_in_full_and_what_is_left_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.py"
    path.write_text(FASTMCP)
    assert main(["migrate", str(path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [mark["line"] for mark in told["marks"]] == [3, 12, 27]
    assert (told["changed"], told["written"]) == (True, False)
    assert path.read_text() == FASTMCP
    assert main(["migrate", str(path), "--write"]) == 1
    assert path.read_text() == MIGRATED
    capsys.readouterr()
    assert main(["migrate", str(path), "--write"]) == 1, "what was left is still there"
    assert "nothing to change" in capsys.readouterr().out
    assert path.read_text() == MIGRATED


def test_a_server_that_is_carried_over_as_a_whole_leaves_with_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.py"
    path.write_text(OLD)
    assert main(["migrate", str(path), "--write"]) == 0
    assert path.read_text() == NEW
    assert capsys.readouterr().err == ""


def test_a_low_level_server_gets_an_error_with_the_fix() -> None:
    before = (
        b"from mcp.server import Server\nfrom mcp.types import Icon\n\nx = Server('', icons=[Icon(src='')])\n"
    )
    source = migrated(before)
    assert "server.add_tool(name=" in marks(source)[0][1]
    kept = [line for line in source.splitlines(keepends=True) if not line.startswith(b"# dovetail: ")]
    assert b"".join(kept) == before, "half of it would run nowhere"
    assert migrated(source) == source


@pytest.mark.parametrize("module", ["fastmcp.tools", "fastmcp.tools.tool"])
def test_a_result_of_another_library_gets_an_error_with_the_replacement(module: str) -> None:
    source = f"from fastmcp import FastMCP\nfrom {module} import ToolResult\n\nmcp = FastMCP('x')\nr = ToolResult\n"
    ((_, said),) = marks(migrated(source.encode()))
    assert "dovetail.CallToolResult(content=" in said


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (b"def broken(:\n", "line 1"),
        (b"\xff\xfe\x00", "not valid Python"),
        (b"print('hello')\n", "no server"),
        (b"", "no server"),
        (None, "No such file"),
    ],
    ids=["syntax", "bytes", "no server", "empty", "no file"],
)
def test_what_is_no_server_is_refused(
    source: bytes | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.py"
    if source is not None:
        path.write_bytes(source)
    assert main(["migrate", str(path), "--write"]) == 2
    assert said in capsys.readouterr().err
    assert source is None or path.read_bytes() == source


SECOND = """
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, UserMessage
from mcp.server.mcpserver.exceptions import ToolError

mcp = MCPServer("desk", "The desk", instructions="Ask first.", version="2")


@mcp.tool()
async def find(word: str, ctx: Context) -> str:
    await ctx.info("asked", logger_name="desk")
    if not word:
        raise ToolError("there is no word")
    return word.upper()


@mcp.prompt()
def greet(name: str) -> list:
    return [UserMessage("hello")]


if __name__ == "__main__":
    mcp.run("streamable-http", port=8001)
"""


def test_a_server_of_the_second_sdk_is_migrated() -> None:
    source = migrated(SECOND.encode())
    assert marks(source) == []
    assert b'mcp.run("http", port=8001)' in source

    async def both() -> tuple[Any, ...]:
        async with Client(native(source, "second").mcp) as client:
            server, found = client.server_info, await client.call_tool("find", {"word": "tea"})
            (message,) = (await client.get_prompt("greet", {"name": "Ada"})).messages
            return server.name if server else "", client.instructions, found.text, message.content.text

    assert asyncio.run(both()) == ("desk", "Ask first.", "TEA", "hello")


def test_what_the_second_sdk_resolves_is_asked_in_the_handler() -> None:
    asked = SECOND.replace("Context, UserMessage", "Context, Resolve, UserMessage")
    assert "await ctx.elicit" in marks(migrated(asked.encode()))[0][1]
