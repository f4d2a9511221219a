"""A smolagents agent with the tools of an MCP server. `pip install dovetail-mcp smolagents`

The model is a fake that calls one tool, so that the program runs offline. Put a model of yours in its place:
``ToolCallingAgent(tools, InferenceClientModel())``. smolagents is synchronous, and so is this client.
"""
# pyright: basic, reportMissingImports=false

from typing import Any

from smolagents import ChatMessage, MessageRole, Model, ToolCallingAgent
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

from dovetail import Server
from dovetail.integrations import smolagents
from dovetail.sync import Client

server = Server("calculator")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class FakeModel(Model):
    def generate(self, messages: list[Any], *args: Any, **options: Any) -> ChatMessage:
        last = messages[-1]
        if last.role == MessageRole.TOOL_RESPONSE:
            name, arguments = "final_answer", {"answer": last.content[0]["text"]}
        else:
            name, arguments = "add", {"a": 2, "b": 3}
        call = ChatMessageToolCall(ChatMessageToolCallFunction(arguments, name), "1", "function")
        return ChatMessage(MessageRole.ASSISTANT, tool_calls=[call])


with Client(server) as client:  # or Client("https://example.com/mcp"), …
    agent = ToolCallingAgent(smolagents.load_tools_sync(client), FakeModel(), verbosity_level=0)
    print(agent.run("What is 2 + 3?"))
