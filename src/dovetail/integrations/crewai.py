"""CrewAI: the tools of a client as `BaseTool`.

``crew.kickoff()`` runs tools in synchronous code: load them with `load_tools_sync` and a `dovetail.sync.Client`, or
run the crew in a thread. A result is text. A failed tool gives a `ToolFailure`: CrewAI records it, the model reads it.
"""

from __future__ import annotations

from typing import Any

from ..client import Client
from ..errors import DovetailError
from .remote_tools import READABLE, RemoteTool, arguments_model, blocking, framework, remote_tools, text_of

tools: Any = framework("crewai.tools", "crewai")
failures: Any = framework("crewai.tools.tool_failure", "crewai")
pydantic: Any = framework("pydantic", "pydantic")


async def load_tools(client: Client) -> list[Any]:
    """The tools of ``client`` for ``Agent(tools=…)``."""
    return [McpTool(tool) for tool in await remote_tools(client)]


load_tools_sync = blocking(load_tools)


class McpTool(tools.BaseTool):
    """A tool of a server."""

    _tool: RemoteTool = pydantic.PrivateAttr()

    def __init__(self, tool: RemoteTool) -> None:
        super().__init__(name=tool.name, description=tool.description, args_schema=arguments_model(tool))  # pyright: ignore[reportUnknownMemberType]
        self._tool = tool

    def _run(self, **arguments: Any) -> Any:
        try:
            return text_of(self._tool.call_from_thread(arguments))
        except READABLE as error:
            return _failure(error)

    async def _arun(self, **arguments: Any) -> Any:
        try:
            return text_of(await self._tool.call(arguments))
        except READABLE as error:
            return _failure(error)


def _failure(error: DovetailError) -> Any:
    reason = failures.ToolFailureReason.MCP_ERROR
    return failures.ToolFailure(message=error.message, reason=reason, code=error.kind)
