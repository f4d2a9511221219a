"""A Pydantic AI agent with the tools of an MCP server. `pip install dovetail-mcp pydantic-ai-slim`

The model is a function that calls one tool, so that the program runs offline. Put a model of yours in its place:
``Agent("openai:gpt-5", tools=tools)``.
"""
# pyright: basic, reportMissingImports=false

import asyncio
from typing import Any

from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from dovetail import Client, Server
from dovetail.integrations import pydantic_ai

server = Server("calculator")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def answer(messages: list[Any], info: Any) -> ModelResponse:
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse([TextPart(f"It is {last.content}.")])
    return ModelResponse([ToolCallPart("add", {"a": 2, "b": 3})])


async def main() -> None:
    async with Client(server) as client:  # or Client("https://example.com/mcp"), Clients("mcp.json"), …
        agent = Agent(FunctionModel(answer), tools=await pydantic_ai.load_tools(client))
        print((await agent.run("What is 2 + 3?")).output)


asyncio.run(main())
