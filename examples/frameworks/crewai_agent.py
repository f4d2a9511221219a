"""A CrewAI agent with the tools of an MCP server. `pip install dovetail-mcp crewai`

The model is a fake that calls one tool, so that the program runs offline. Put a model of yours in its place:
``Agent(…, llm="gpt-5", tools=tools)``. `Crew.kickoff` is synchronous, and so is this client.
"""
# pyright: basic, reportMissingImports=false

import re
from typing import Any

from crewai import Agent, BaseLLM, Crew, Task

from dovetail import Server
from dovetail.integrations import crewai
from dovetail.sync import Client

server = Server("calculator")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class FakeModel(BaseLLM):
    def call(self, messages: Any, *args: Any, **options: Any) -> str:
        found = re.search(r"Observation: (\d+)", " ".join(str(message["content"]) for message in messages))
        if found:
            return f"Thought: I know.\nFinal Answer: It is {found[1]}."
        return 'Thought: I have to add.\nAction: add\nAction Input: {"a": 2, "b": 3}'


with Client(server) as client:  # or Client("https://example.com/mcp"), …
    agent = Agent(
        role="calculator",
        goal="Add numbers.",
        backstory="It knows nothing but numbers.",
        llm=FakeModel(model="fake"),
        tools=crewai.load_tools_sync(client),
    )
    task = Task(description="What is 2 + 3?", expected_output="A number.", agent=agent)
    print(Crew(agents=[agent], tasks=[task]).kickoff())
