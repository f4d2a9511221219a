"""The OpenAI Agents SDK: its tools, its own MCP client, its tools in our server."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agents import Agent, FunctionTool, RunContextWrapper, ToolOutputImage, function_tool
from agents.mcp import MCPServerSse, MCPServerStdio, MCPServerStreamableHttp, MCPUtil
from agents.tool_context import ToolContext
from scenario import PIXEL, Outcome

IMAGES, DATA = True, False


def named(tools: list[Any]) -> dict[str, Any]:
    return {each.name: each for each in tools}


def parameters(each: Any) -> dict[str, Any]:
    assert isinstance(each, FunctionTool)
    return each.params_json_schema


async def call(each: Any, arguments: dict[str, Any]) -> Outcome:
    written = json.dumps(arguments)
    context = ToolContext(None, tool_name=each.name, tool_call_id="1", tool_arguments=written)
    output = await each.on_invoke_tool(context, written)
    blocks = [
        block if isinstance(block, str) else dict(block)
        for block in (output if isinstance(output, list) else [output])
    ]
    text = "\n".join(block if isinstance(block, str) else block.get("text", "") for block in blocks)
    urls = [block["image_url"] for block in blocks if not isinstance(block, str) and block["type"] == "image"]
    images = tuple(base64.b64decode(url.partition(";base64,")[2]) for url in urls)
    failed = "out of paper" in text or "rror" in text or "must" in text or "valid" in text
    return Outcome(text, None, images, failed)


def waiting(each: Any, arguments: dict[str, Any]) -> Any:
    task = asyncio.ensure_future(call(each, arguments))
    return task, task.cancel


@asynccontextmanager
async def theirs(transport: str, target: tuple[str, ...]) -> AsyncIterator[list[Any]]:
    if transport == "stdio":
        server: Any = MCPServerStdio({"command": target[0], "args": list(target[1:])})
    else:
        kind: Any = MCPServerSse if transport == "sse" else MCPServerStreamableHttp
        server = kind({"url": target[0]})
    async with server:
        yield await MCPUtil.get_function_tools(server, False, RunContextWrapper(None), Agent("shopper"))


async def reverse() -> None:
    from dovetail import Client, Server

    @function_tool
    def multiply(a: int, b: int = 2) -> int:
        """Multiply two numbers."""
        return a * b

    @function_tool
    async def show() -> Any:
        """Show a picture."""
        return ToolOutputImage(image_url=f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}")

    server = Server("reverse")
    server.add_tools(multiply, [show])
    async with Client(server) as client:
        tools = {each.name: each for each in await client.list_tools()}
        assert tools["multiply"].description == "Multiply two numbers."
        assert tools["multiply"].input_schema["properties"]["a"]["type"] == "integer"
        assert (await client.call_tool("multiply", {"a": 4, "b": 2})).text == "8"
        assert (await client.call_tool("show")).images == [PIXEL]
        result = await client.call_tool("multiply", {"a": "many", "b": 1}, check=False)
        assert result.is_error, "the schema of the tool is checked"
