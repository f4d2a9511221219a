"""A LlamaIndex agent with the tools of an MCP server. `pip install dovetail-mcp llama-index-core`

The model is a fake that calls one tool, so that the program runs offline. Put a model of yours in its place:
``FunctionAgent(tools=tools, llm=OpenAI("gpt-5"))``.
"""
# pyright: basic, reportMissingImports=false

import asyncio
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

from dovetail import Client, Server
from dovetail.integrations import llama_index

server = Server("calculator")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def answer(messages: Any, **options: Any) -> ChatMessage:
    last = messages[-1]
    if last.role == "tool":
        return ChatMessage(role="assistant", blocks=[TextBlock(text=f"It is {last.content}.")])
    call = ToolCallBlock(tool_call_id="1", tool_name="add", tool_kwargs={"a": 2, "b": 3})
    return ChatMessage(role="assistant", blocks=[call])


async def main() -> None:
    async with Client(server) as client:  # or Client("https://example.com/mcp"), Clients("mcp.json"), …
        model = MockFunctionCallingLLM(response_generator=answer)
        agent = FunctionAgent(tools=await llama_index.load_tools(client), llm=model, streaming=False)
        print(await agent.run("What is 2 + 3?"))


asyncio.run(main())
