"""A Semantic Kernel agent with the tools of an MCP server. `pip install dovetail-mcp semantic-kernel`

The model is a fake that calls one tool, so that the program runs offline. Put a model of yours in its place:
``ChatCompletionAgent(kernel=kernel, service=OpenAIChatCompletion(…))``.
"""
# pyright: basic, reportMissingImports=false

import asyncio
from typing import Any, ClassVar

from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
from semantic_kernel.connectors.ai.prompt_execution_settings import PromptExecutionSettings
from semantic_kernel.contents import (
    ChatMessageContent,
    FunctionCallContent,
    FunctionResultContent,
    TextContent,
)

from dovetail import Client, Server
from dovetail.integrations import semantic_kernel

server = Server("calculator")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class FakeModel(ChatCompletionClientBase):
    SUPPORTS_FUNCTION_CALLING: ClassVar[bool] = True

    def get_prompt_execution_settings_class(self) -> type[PromptExecutionSettings]:
        return PromptExecutionSettings

    async def _inner_get_chat_message_contents(
        self, chat_history: Any, settings: Any
    ) -> list[ChatMessageContent]:
        last = chat_history.messages[-1].items[-1]
        if isinstance(last, FunctionResultContent):
            item: Any = TextContent(text=f"It is {last.result}.")
        else:
            item = FunctionCallContent(id="1", name="calculator-add", arguments='{"a": 2, "b": 3}')
        return [ChatMessageContent(role="assistant", items=[item])]


async def main() -> None:
    async with Client(server) as client:  # or Client("https://example.com/mcp"), Clients("mcp.json"), …
        kernel = Kernel()
        kernel.add_functions("calculator", await semantic_kernel.load_tools(client))
        agent = ChatCompletionAgent(kernel=kernel, service=FakeModel(ai_model_id="fake"))
        print(await agent.get_response("What is 2 + 3?"))


asyncio.run(main())
