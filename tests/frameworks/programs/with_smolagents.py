"""smolagents: its tools, its own MCP client. Its tools are synchronous."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import StdioServerParameters
from PIL.Image import Image
from scenario import PIXEL, Outcome
from smolagents import MCPClient

from dovetail.errors import ToolError

IMAGES = DATA = True
CANCELS = False


def named(tools: list[Any]) -> dict[str, Any]:
    return {each.name: each for each in tools}


def parameters(each: Any) -> dict[str, Any]:
    """What smolagents has of a schema: each argument."""
    each.to_code_prompt()
    each.to_tool_calling_prompt()
    whole = each.remote.input_schema
    for name, schema in each.inputs.items():
        assert {**schema, **whole["properties"][name]} == schema | whole["properties"][name]
        assert ("nullable" in schema) == (name not in whole.get("required", ()))
    return whole


def call_in_thread(each: Any, arguments: dict[str, Any]) -> Outcome:
    try:
        value = each(**arguments)
    except ToolError as error:
        return Outcome(error.message, failed=True)
    if isinstance(value, Image):
        written = io.BytesIO()
        value.save(written, "png")
        assert value.size == (1, 1)
        return Outcome("", None, (PIXEL,))
    return Outcome(str(value), value if isinstance(value, dict) else None)


async def call(each: Any, arguments: dict[str, Any]) -> Outcome:
    return await asyncio.to_thread(call_in_thread, each, arguments)


@asynccontextmanager
async def theirs(transport: str, target: tuple[str, ...]) -> AsyncIterator[list[Any]]:
    if transport == "stdio":
        params: Any = StdioServerParameters(command=target[0], args=list(target[1:]))
    else:
        params = {"url": target[0], "transport": "sse" if transport == "sse" else "streamable-http"}
    client = await asyncio.to_thread(MCPClient, params, structured_output=True)
    try:
        yield client.get_tools()
    finally:
        await asyncio.to_thread(client.disconnect)
