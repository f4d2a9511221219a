"""A LangChain agent with the tools of an MCP server. `pip install dovetail-mcp langchain`

The model is a fake that calls one tool, so that the program runs offline. Put a model of yours in its place:
``create_agent("openai:gpt-5", tools)``. A LangGraph `ToolNode(tools)` takes the same tools.
"""
# pyright: basic, reportMissingImports=false

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from dovetail import Client, Server
from dovetail.integrations import langchain

server = Server("calculator")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class FakeModel(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


async def main() -> None:
    call = {"type": "tool_call", "id": "1", "name": "add", "args": {"a": 2, "b": 3}}
    model = FakeModel(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("That is all.")]))
    async with Client(server) as client:  # or Client("https://example.com/mcp"), Clients("mcp.json"), …
        agent = create_agent(model, await langchain.load_tools(client))
        state = await agent.ainvoke({"messages": [("user", "What is 2 + 3?")]})
    for message in state["messages"]:
        print(f"{message.type}: {message.text}")


asyncio.run(main())
