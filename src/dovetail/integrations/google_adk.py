"""Google's Agent Development Kit: the tools of a client as `BaseTool`.

The response is the result as the protocol writes it: ``content``, ``structuredContent`` and, of a failed tool,
``isError``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..client import Client
from .remote_tools import READABLE, RemoteTool, blocking, framework, remote_tools

base_tool: Any = framework("google.adk.tools.base_tool", "google-adk")
genai: Any = framework("google.genai.types", "google-adk")


async def load_tools(client: Client) -> list[Any]:
    """The tools of ``client`` for ``Agent(tools=…)``."""
    return [McpTool(tool) for tool in await remote_tools(client)]


load_tools_sync = blocking(load_tools)


class McpTool(base_tool.BaseTool):
    """A tool of a server."""

    def __init__(self, tool: RemoteTool) -> None:
        metadata = {"mcp_name": tool.definition.name, "annotations": tool.annotations}
        super().__init__(name=tool.name, description=tool.description, custom_metadata=metadata)  # pyright: ignore[reportUnknownMemberType]
        self.remote = tool

    def _get_declaration(self) -> Any:
        return genai.FunctionDeclaration(
            name=self.remote.name,
            description=self.remote.description,
            parameters_json_schema=self.remote.input_schema,
            response_json_schema=self.remote.output_schema,
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> dict[str, Any]:
        try:
            result = await self.remote.call(args)
        except READABLE as error:
            return {"content": [{"type": "text", "text": error.message}], "isError": True}
        written: dict[str, Any] = msgspec.to_builtins(result.raw)
        return {key: written[key] for key in ("content", "structuredContent") if key in written}
