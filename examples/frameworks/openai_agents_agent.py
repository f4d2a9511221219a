"""An agent of the OpenAI Agents SDK with the tools of an MCP server. `pip install dovetail-mcp openai-agents`

The model is a fake that calls one tool, so that the program runs offline. Put a model of yours in its place:
``Agent("calculator", tools=tools, model="gpt-5")``.
"""
# pyright: basic, reportMissingImports=false

import asyncio
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from dovetail import Client, Server
from dovetail.integrations import openai_agents

server = Server("calculator")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class FakeModel(Model):
    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **options: Any
    ) -> ModelResponse:
        results = [] if isinstance(input, str) else [item for item in input if "output" in item]
        if results:
            text = ResponseOutputText(
                type="output_text", text=f"It is {results[0]['output'][0]['text']}.", annotations=[]
            )
            output: Any = ResponseOutputMessage(
                id="2", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            output = ResponseFunctionToolCall(
                type="function_call", call_id="1", name="add", arguments='{"a": 2, "b": 3}'
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


async def main() -> None:
    set_tracing_disabled(True)
    async with Client(server) as client:  # or Client("https://example.com/mcp"), Clients("mcp.json"), …
        agent = Agent("calculator", tools=await openai_agents.load_tools(client), model=FakeModel())
        print((await Runner.run(agent, "What is 2 + 3?")).final_output)


asyncio.run(main())
