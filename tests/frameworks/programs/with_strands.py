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
from strands import Agent
from strands.models import Model
from strands.tools.mcp import MCPClient

from dovetail.integrations import strands as module

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


class Waiting(Model):
    """A model that calls `wait`."""

    def update_config(self, **model_config: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def stream(self, *args: Any, **options: Any) -> AsyncIterator[dict[str, Any]]:
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": "1", "name": "wait"}}}}
        yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"key": "agent"}'}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}


async def more(client: Any) -> None:
    """`Agent.cancel` ends the call of a tool."""
    tools = named(await module.load_tools(client))
    agent = Agent(model=Waiting(), tools=[tools["wait"]], callback_handler=None)
    run = asyncio.ensure_future(agent.invoke_async("Wait."))
    while "waiting" not in (await call(tools["state"], {"key": "agent"})).text:
        assert not run.done(), run
    agent.cancel()
    assert (await run).stop_reason == "cancelled"
    while "stopped" not in (await call(tools["state"], {"key": "agent"})).text:
        pass


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
