"""An agent of Google's ADK with the tools of an MCP server. `pip install dovetail-mcp google-adk`

The model is a fake that calls one tool, so that the program runs offline. Put a model of yours in its place:
``LlmAgent(name="calculator", model="gemini-3.5-flash", tools=tools)``.
"""
# pyright: basic, reportMissingImports=false

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, Part

from dovetail import Client, Server
from dovetail.integrations import google_adk

server = Server("calculator")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class FakeModel(BaseLlm):
    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        result = llm_request.contents[-1].parts[-1].function_response
        if result is None:
            part = Part.from_function_call(name="add", args={"a": 2, "b": 3})
        else:
            part = Part.from_text(text=f"It is {result.response['content'][0]['text']}.")
        yield LlmResponse(content=Content(role="model", parts=[part]))


async def main() -> None:
    async with Client(server) as client:  # or Client("https://example.com/mcp"), Clients("mcp.json"), …
        tools = await google_adk.load_tools(client)
        agent = LlmAgent(name="calculator", model=FakeModel(model="fake"), tools=tools)
        runner = InMemoryRunner(agent=agent, app_name="example")
        await runner.run_debug("What is 2 + 3?")  # prints the conversation
        await runner.close()


asyncio.run(main())
