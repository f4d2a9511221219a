"""An AutoGen agent with the tools of an MCP server. `pip install dovetail-mcp autogen-agentchat autogen-ext`

The model replays a call of one tool, so that the program runs offline. Put a model of yours in its place:
``AssistantAgent("calculator", OpenAIChatCompletionClient(model="gpt-5"), tools=tools)``.
"""
# pyright: basic, reportMissingImports=false

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, ModelFamily, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

from dovetail import Client, Server
from dovetail.integrations import autogen

server = Server("calculator")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    call = CreateResult(
        finish_reason="function_calls",
        content=[FunctionCall("1", '{"a": 2, "b": 3}', "add")],
        usage=RequestUsage(0, 0),
        cached=False,
    )
    abilities = ModelInfo(
        vision=False,
        function_calling=True,
        json_output=False,
        family=ModelFamily.UNKNOWN,
        structured_output=False,
    )
    model = ReplayChatCompletionClient([call], abilities)
    async with Client(server) as client:  # or Client("https://example.com/mcp"), Clients("mcp.json"), …
        agent = AssistantAgent("calculator", model, tools=await autogen.load_tools(client))
        result = await agent.run(task="What is 2 + 3?")
    print(result.messages[-1].to_text())


asyncio.run(main())
