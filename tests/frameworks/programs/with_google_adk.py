"""Google's Agent Development Kit: its tools, its own MCP client."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import MagicMock

from google.adk.models.llm_request import LlmRequest
from google.adk.tools.mcp_tool import McpToolset
from google.adk.tools.mcp_tool.mcp_session_manager import (
    SseConnectionParams,
    StdioConnectionParams,
    StreamableHTTPConnectionParams,
)
from mcp import StdioServerParameters
from scenario import Outcome

IMAGES = DATA = True


def named(tools: list[Any]) -> dict[str, Any]:
    return {each.name: each for each in tools}


def parameters(each: Any) -> dict[str, Any]:
    request = LlmRequest()
    request.append_tools([each])
    return request.config.tools[0].function_declarations[0].parameters_json_schema


async def call(each: Any, arguments: dict[str, Any]) -> Outcome:
    result = await each.run_async(args=arguments, tool_context=MagicMock())
    json.dumps(result)
    content = result.get("content", [])
    text = "\n".join(block["text"] for block in content if block["type"] == "text")
    images = tuple(base64.b64decode(block["data"]) for block in content if block["type"] == "image")
    failed = bool(result.get("isError") or result.get("error"))
    return Outcome(text or str(result.get("error", "")), result.get("structuredContent"), images, failed)


def waiting(each: Any, arguments: dict[str, Any]) -> Any:
    task = asyncio.ensure_future(call(each, arguments))
    return task, task.cancel


@asynccontextmanager
async def theirs(transport: str, target: tuple[str, ...]) -> AsyncIterator[list[Any]]:
    if transport == "stdio":
        server = StdioServerParameters(command=target[0], args=list(target[1:]))
        params: Any = StdioConnectionParams(server_params=server, timeout=60)
    else:
        kind: Any = SseConnectionParams if transport == "sse" else StreamableHTTPConnectionParams
        params = kind(url=target[0], timeout=60)
    toolset = McpToolset(connection_params=params)
    try:
        yield await toolset.get_tools()
    finally:
        await toolset.close()
