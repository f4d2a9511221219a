"""What a server of others puts off until somebody asks for it, and that nobody notices."""

from __future__ import annotations

import ast
import asyncio
import logging
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from dovetail.compat.absent import look, parsed
from dovetail.compat.mcp import types
from dovetail.compat.mcp.server.fastmcp import Context, FastMCP
from dovetail.compat.mcp.server.fastmcp.exceptions import InvalidSignature, ToolError
from dovetail.compat.mcp.server.fastmcp.tools import Tool, ToolManager
from dovetail.compat.mcp.server.lowlevel import Server


class Opaque:
    """Nothing that pydantic knows."""


def bare(a, b=1): ...  # type: ignore[no-untyped-def]
def plain(text: str, count: int = 3, ctx: Context[Any, Any, Any] | None = None) -> str: ...
def nested(rows: list[dict[str, int | None]], way: Literal["up", "down"] = "up") -> dict[str, Any]: ...
def told(text: Annotated[str, Field(description="what")], size: float = Field(1.5, title="Size")) -> None: ...
async def named(model_name: str, schema: bool = False) -> list[str]: ...
def bounded(count: Annotated[int, Field(ge=1)]) -> int: ...


LATER = (bare, plain, nested, told, named)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The functions that were made tools of so far."""
    functions, make = list[Any](), Tool.from_function

    def noted(fn: Any, **options: Any) -> Tool:
        functions.append(fn)
        return make(fn, **options)

    monkeypatch.setattr(Tool, "from_function", noted)
    return functions


@pytest.mark.parametrize("function", [*LATER, bounded])
def test_a_tool_that_is_made_later_is_the_one_that_is_made_at_once(function: Any, read: list[Any]) -> None:
    manager, at_once = ToolManager(), Tool.from_function(function, title="A title")
    read.clear()
    manager.register(function, title="A title")
    assert (function in read) == (function is bounded)
    made = manager.get_tool(function.__name__)
    assert made is not None
    assert read == [function]
    models = {"fn_metadata"}  # made anew for each tool
    assert made.model_dump(exclude=models) == at_once.model_dump(exclude=models)
    assert made.output_schema == at_once.output_schema


def _hidden(_secret: str) -> None: ...
def _opaque(one: Opaque) -> None: ...
def _misfit(one: Annotated[list[int], Field(discriminator="kind")]) -> None: ...
def _returns(one: str) -> Opaque: ...


@pytest.mark.parametrize(
    ("function", "options", "error"),
    [
        (_hidden, {}, InvalidSignature),
        (_misfit, {}, Exception),
        (lambda text: text, {}, ValueError),
        (_returns, {"structured_output": True}, InvalidSignature),
        (plain, {"annotations": "loud"}, ValueError),
        (plain, {"title": 5}, ValueError),
    ],
)
def test_an_authors_mistake_is_said_where_the_tool_is_registered(
    function: Any, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        FastMCP("later").tool(**options)(function)


def test_of_two_tools_with_one_name_the_first_stays_and_removing_needs_no_look(
    caplog: pytest.LogCaptureFixture, read: list[Any]
) -> None:
    manager = ToolManager()
    manager.register(plain, "one")
    with caplog.at_level(logging.WARNING, "mcp.server.fastmcp"):
        manager.register(nested, "one")
    assert "Tool already exists: one" in caplog.text
    manager.register(named, "two")
    manager.remove_tool("two")
    with pytest.raises(ToolError, match="Unknown tool: three"):
        manager.remove_tool("three")
    assert read == []
    assert manager.add_tool(bounded, "one").fn is plain
    assert [tool.name for tool in manager.list_tools()] == ["one"]


def test_many_tools_are_made_with_a_turn_for_others_after_each(read: list[Any]) -> None:
    mcp = FastMCP("many")
    for number in range(5):
        mcp.add_tool(plain, f"tool{number}")

    async def beside() -> tuple[int, list[str]]:
        listing = asyncio.create_task(mcp.list_tools())
        turns = 0
        while not listing.done():
            turns += len(read) > turns
            await asyncio.sleep(0)
        return turns, [tool.name for tool in listing.result()]

    assert asyncio.run(beside()) == (5, [f"tool{number}" for number in range(5)])
    assert read == [plain] * 5


def test_a_call_makes_the_tool_that_is_called(read: list[Any]) -> None:
    manager = ToolManager()
    manager.register(told, "one")
    manager.register(plain, "two")
    asyncio.run(manager.call_tool("two", {"text": "x"}))
    asyncio.run(manager.call_tool("two", {"text": "y"}))
    assert read == [plain]
    manager.list_tools()
    assert read == [plain, told]


def test_what_a_docstring_said_when_the_tool_was_registered_counts() -> None:
    def spoken(text: str) -> str: ...

    spoken.__doc__ = "Before."
    mcp = FastMCP("later")
    mcp.add_tool(spoken)
    spoken.__doc__ = "After."
    assert asyncio.run(mcp.list_tools())[0].description == "Before."


def test_an_add_tool_of_the_programs_own_is_called() -> None:
    manager, seen = ToolManager(), list[Any]()
    manager.add_tool = lambda fn, *_, **__: seen.append(fn)  # type: ignore[method-assign]
    manager.register(plain)
    assert seen == [plain]


# Handlers


class Own(types.Request[Any, Any]):
    """A request of the program's, with the name of one of the protocol."""


Own.__name__ = "ListToolsRequest"


def test_handlers_look_like_a_dict_of_types() -> None:
    server = Server[Any, Any]("low")

    @server.list_tools()
    async def tools() -> list[types.Tool]:
        return []

    handlers = server.request_handlers
    assert set(handlers) == {types.PingRequest, types.ListToolsRequest}
    handler = handlers[types.ListToolsRequest]
    assert handlers.copy() == {
        types.PingRequest: handlers[types.PingRequest],
        types.ListToolsRequest: handler,
    }
    assert Own not in handlers
    with pytest.raises(KeyError, match="Own"):
        handlers[Own]
    handlers[Own] = handler
    assert len(handlers) == 3
    assert handlers.pop(Own) is handler
    del handlers[types.ListToolsRequest]
    assert handlers.get(types.ListToolsRequest) is None
    assert server.get_capabilities(server.notification_options, {}).tools is None
    server.request_handlers |= {types.ListToolsRequest: handler}
    assert (handlers | {Own: handler}).keys() == {types.PingRequest, types.ListToolsRequest, Own}
    server.request_handlers = {types.CallToolRequest: handler}
    assert server.request_handlers == {types.CallToolRequest: handler}


@pytest.mark.parametrize("place", ["the server", "its class", "the class of all"])
def test_what_a_program_says_about_its_server_in_our_place_is_what_clients_hear(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Below(Server[Any, Any]):
        """A server of the program's."""

    server = Below("low", version="1")
    own = server.create_initialization_options(experimental_capabilities={"x": {"y": 1}})
    own.server_name = "another"
    owner = {"the server": server, "its class": Below, "the class of all": Server}[place]
    monkeypatch.setattr(owner, "create_initialization_options", lambda *_, **__: own)
    native = server.native
    assert (native.name, dict(native.capabilities)) == ("another", {"experimental": {"x": {"y": 1}}})


# Reading


def test_of_a_file_without_the_families_only_the_imports_are_read() -> None:
    text = (
        "import os, \\\n    sys\nfrom .a import (\n    b,\n    c,\n)\nvalue = 1\n\ndef f():\n    return 2\n"
    )
    assert ast.unparse(parsed(text)) == "import os, sys\nfrom .a import b, c"
    assert "value = 1" in ast.unparse(parsed("import mcp\nvalue = 1\n"))
    assert "value = 1" in ast.unparse(
        parsed("try:\n    import a\nexcept ImportError:\n    pass\nvalue = 1\n")
    )
    assert "value = 1" in ast.unparse(parsed('value = 1\n"""\nimport nothing at all\n"""\n'))


def test_what_is_missing_is_found_behind_a_file_without_the_families(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("from between import (\n    thing,\n)\n")
    (tmp_path / "between.py").write_text("import last\nthing = last\n")
    (tmp_path / "last.py").write_text("import mcp.nothing_there\n")
    assert [one.name for one in look(tmp_path / "main.py")] == ["mcp.nothing_there"]
