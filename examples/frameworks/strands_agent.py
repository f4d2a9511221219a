"""A Strands agent with the tools of an MCP server. `pip install dovetail-mcp strands-agents`

The model is a fake that calls one tool, so that the program runs offline. Put a model of yours in its place:
``Agent(model=BedrockModel(…), tools=tools)``.
"""
# pyright: basic, reportMissingImports=false

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent
from strands.models import Model

from dovetail import Client, Server
from dovetail.integrations import strands

server = Server("calculator")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class FakeModel(Model):
    def update_config(self, **model_config: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **options: Any) -> AsyncIterator[dict[str, Any]]:
        result = messages[-1]["content"][-1].get("toolResult")
        start, reason = {}, "end_turn"
        if result is None:
            start, reason = {"toolUse": {"toolUseId": "1", "name": "add"}}, "tool_use"
            delta: Any = {"toolUse": {"input": '{"a": 2, "b": 3}'}}
        else:
            delta = {"text": f"It is {result['content'][0]['text']}."}
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": start}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": reason}}


async def main() -> None:
    async with Client(server) as client:  # or Client("https://example.com/mcp"), Clients("mcp.json"), …
        agent = Agent(model=FakeModel(), tools=await strands.load_tools(client), callback_handler=None)
        print(await agent.invoke_async("What is 2 + 3?"))


asyncio.run(main())
