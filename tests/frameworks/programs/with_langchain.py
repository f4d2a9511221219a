"""LangChain: its tools, its own MCP client, its tools in our server."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool, ToolException, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from scenario import PIXEL, Outcome

IMAGES = DATA = True
THEIRS_CANCELS = "the caller"  # the SDK 1.x says nothing to the server


def named(tools: list[Any]) -> dict[str, Any]:
    return {each.name: each for each in tools}


def parameters(each: Any) -> dict[str, Any]:
    convert_to_openai_tool(each)
    return each.args_schema


def _request(each: Any, arguments: dict[str, Any]) -> Any:
    return {"type": "tool_call", "id": "1", "name": each.name, "args": arguments}


def _outcome(message: ToolMessage) -> Outcome:
    images = tuple(
        base64.b64decode(block["base64"]) for block in message.content_blocks if block["type"] == "image"
    )
    data = message.artifact and message.artifact["structured_content"]
    return Outcome(message.text, data, images, message.status == "error")


async def call(each: Any, arguments: dict[str, Any]) -> Outcome:
    return _outcome(await each.ainvoke(_request(each, arguments)))


def call_in_thread(each: Any, arguments: dict[str, Any]) -> Outcome:
    return _outcome(each.invoke(_request(each, arguments)))


def waiting(each: Any, arguments: dict[str, Any]) -> Any:
    task = asyncio.ensure_future(call(each, arguments))
    return task, task.cancel


@asynccontextmanager
async def theirs(transport: str, target: tuple[str, ...]) -> AsyncIterator[list[Any]]:
    if transport == "stdio":
        connection: Any = {"transport": "stdio", "command": target[0], "args": list(target[1:])}
    else:
        connection = {"transport": "sse" if transport == "sse" else "streamable_http", "url": target[0]}
    client = MultiServerMCPClient({"shop": connection})
    async with client.session("shop") as session:
        yield await load_mcp_tools(session)


async def reverse() -> None:
    from dovetail import Client, Server

    @tool
    def multiply(a: int, b: int = 2) -> int:
        """Multiply two numbers."""
        return a * b

    @tool
    async def show() -> list[Any]:
        """Show a picture."""
        return [{"type": "image", "base64": base64.b64encode(PIXEL).decode(), "mime_type": "image/png"}]

    def broken() -> str:
        """Fail."""
        raise ToolException("out of ink")

    server = Server("reverse")
    handled = StructuredTool.from_function(broken, name="handled", handle_tool_error=True)
    server.add_tools(multiply, [show, StructuredTool.from_function(broken), handled])
    async with Client(server) as client:
        tools = {each.name: each for each in await client.list_tools()}
        assert tools["multiply"].description == "Multiply two numbers."
        assert tools["multiply"].input_schema["properties"]["a"]["type"] == "integer"
        assert (await client.call_tool("multiply", {"a": 4})).text == "8"
        assert (await client.call_tool("show")).images == [PIXEL]
        for name in ("broken", "handled"):
            failed = await client.call_tool(name, check=False)
            assert (failed.is_error, failed.text) == (True, "out of ink")
