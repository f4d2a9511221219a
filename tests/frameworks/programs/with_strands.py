"""Strands Agents: its tools, its own MCP client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from scenario import Outcome
from strands.tools.mcp import MCPClient

IMAGES = DATA = True


def named(tools: list[Any]) -> dict[str, Any]:
    return {each.tool_name: each for each in tools}


def parameters(each: Any) -> dict[str, Any]:
    return each.tool_spec["inputSchema"]["json"]


async def call(each: Any, arguments: dict[str, Any]) -> Outcome:
    use = {"toolUseId": "1", "name": each.tool_name, "input": arguments}
    events = [event async for event in each.stream(use, {})]
    result = events[-1].tool_result
    assert result["toolUseId"] == "1"
    text = "\n".join(block["text"] for block in result["content"] if "text" in block)
    images = tuple(block["image"]["source"]["bytes"] for block in result["content"] if "image" in block)
    return Outcome(text, result.get("structuredContent"), images, result["status"] == "error")


def waiting(each: Any, arguments: dict[str, Any]) -> Any:
    task = asyncio.ensure_future(call(each, arguments))
    return task, task.cancel


@asynccontextmanager
async def theirs(transport: str, target: tuple[str, ...]) -> AsyncIterator[list[Any]]:
    if transport == "stdio":
        server = StdioServerParameters(command=target[0], args=list(target[1:]))
        client = MCPClient(lambda: stdio_client(server))
    else:
        connect: Any = sse_client if transport == "sse" else streamable_http_client
        client = MCPClient(lambda: connect(target[0]))
    await asyncio.to_thread(client.start)
    try:
        yield list(await asyncio.to_thread(client.list_tools_sync))
    finally:
        await asyncio.to_thread(client.stop, None, None, None)
