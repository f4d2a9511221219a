"""Pydantic AI: its tools, its own MCP client, its toolset in our server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai import BinaryContent, FunctionToolset, ModelRetry, RunContext, RunUsage, ToolFailed
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.test import TestModel
from scenario import PIXEL, Outcome

IMAGES = DATA = True
CONTEXT: Any = RunContext(deps=None, model=TestModel(), usage=RunUsage())


def named(tools: list[Any]) -> dict[str, Any]:
    return {each.name if hasattr(each, "name") else each.tool_def.name: each for each in tools}


def parameters(each: Any) -> dict[str, Any]:
    return each.tool_def.parameters_json_schema


async def call(each: Any, arguments: dict[str, Any]) -> Outcome:
    toolset, name = (
        (FunctionToolset([each]), each.name) if hasattr(each, "name") else (each.toolset, each.tool_def.name)
    )
    tool = (await toolset.get_tools(CONTEXT))[name]
    try:
        value = await toolset.call_tool(name, tool.args_validator.validate_python(arguments), CONTEXT, tool)
    except (ModelRetry, ToolFailed) as error:
        return Outcome(error.message, failed=True)
    items = value if isinstance(value, list) else [value]
    images = tuple(item.data for item in items if isinstance(item, BinaryContent))
    text = "\n".join(str(item) for item in items if not isinstance(item, BinaryContent))
    return Outcome(text, value if isinstance(value, dict) else None, images)


def waiting(each: Any, arguments: dict[str, Any]) -> Any:
    task = asyncio.ensure_future(call(each, arguments))
    return task, task.cancel


@asynccontextmanager
async def theirs(transport: str, target: tuple[str, ...]) -> AsyncIterator[list[Any]]:
    if transport == "stdio":
        from fastmcp.client.transports import StdioTransport

        toolset: Any = MCPToolset(StdioTransport(target[0], list(target[1:])))
    else:
        toolset = MCPToolset(target[0])
    async with toolset:
        yield list((await toolset.get_tools(CONTEXT)).values())


async def reverse() -> None:
    from dovetail import Client, Server

    toolset: Any = FunctionToolset()

    @toolset.tool_plain
    def multiply(a: int, b: int = 2) -> int:
        """Multiply two numbers."""
        return a * b

    @toolset.tool
    async def show(context: RunContext[None]) -> BinaryContent:
        """Show a picture."""
        assert context.deps is None
        return BinaryContent(PIXEL, media_type="image/png")

    @toolset.tool_plain
    def broken() -> str:
        """Fail."""
        raise ModelRetry("out of ink")

    server = Server("reverse")
    server.add_tools(toolset)
    async with Client(server) as client:
        tools = {each.name: each for each in await client.list_tools()}
        assert tools["multiply"].description == "Multiply two numbers."
        assert tools["multiply"].input_schema["properties"]["a"]["type"] == "integer"
        assert (await client.call_tool("multiply", {"a": 4})).text == "8"
        assert (await client.call_tool("show")).images == [PIXEL]
        broken = await client.call_tool("broken", check=False)
        assert (broken.is_error, broken.text) == (True, "out of ink")
        wrong = await client.call_tool("multiply", {"a": "many"}, check=False)
        assert wrong.is_error
        assert "integer" in wrong.text
