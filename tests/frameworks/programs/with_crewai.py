"""CrewAI: its tools, its own MCP client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from crewai.tools.tool_failure import ToolFailure
from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters
from scenario import Outcome

from dovetail.integrations import crewai as module

IMAGES = DATA = False
THEIRS_CANCELS = "nothing"  # its tools are synchronous


def named(tools: list[Any]) -> dict[str, Any]:
    return {each.name: each for each in tools}


def parameters(each: Any) -> dict[str, Any]:
    assert each.formatted_description
    return each.args_schema.model_json_schema()


def _outcome(value: Any) -> Outcome:
    if isinstance(value, ToolFailure):
        return Outcome(value.as_agent_message(), failed=True)
    return Outcome(str(value))


async def call(each: Any, arguments: dict[str, Any]) -> Outcome:
    if isinstance(each, module.McpTool):
        return _outcome(await each.arun(**arguments))
    return await asyncio.to_thread(call_in_thread, each, arguments)


def call_in_thread(each: Any, arguments: dict[str, Any]) -> Outcome:
    try:
        return _outcome(each.run(**arguments))
    except ValueError as error:
        return Outcome(str(error), failed=True)


def waiting(each: Any, arguments: dict[str, Any]) -> Any:
    task = asyncio.ensure_future(call(each, arguments))
    return task, task.cancel


@asynccontextmanager
async def theirs(transport: str, target: tuple[str, ...]) -> AsyncIterator[list[Any]]:
    if transport == "stdio":
        params: Any = StdioServerParameters(command=target[0], args=list(target[1:]))
    else:
        params = {"url": target[0], "transport": "sse" if transport == "sse" else "streamable-http"}
    adapter = await asyncio.to_thread(MCPServerAdapter, params)
    try:
        yield list(adapter.tools)
    finally:
        await asyncio.to_thread(adapter.stop)
