"""Strands Agents: the tools of a client as `AgentTool`.

A result has text, images and documents as Strands has them, and ``structuredContent``. A failed tool has
the status "error". ``agent.cancel()`` cancels the calls of its tools on the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from ..client import Client
from ..client.calling.results import ToolResult
from ..errors import ToolError
from .remote_tools import READABLE, Part, RemoteTool, blocking, framework, parts, remote_tools

types: Any = framework("strands.types.tools", "strands-agents")
events: Any = framework("strands.types._events", "strands-agents")

IMAGES: Final = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
"""The images that models of Bedrock read."""
CANCEL_CHECK_SECONDS: Final = 0.1
"""How often a call looks whether its agent was cancelled, which may happen in any thread."""


async def load_tools(client: Client) -> list[Any]:
    """The tools of ``client`` for ``Agent(tools=…)``. Inside a running event loop use ``agent.invoke_async``."""
    return [McpTool(tool) for tool in await remote_tools(client)]


load_tools_sync = blocking(load_tools)


class McpTool(types.AgentTool):
    """A tool of a server."""

    def __init__(self, tool: RemoteTool) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.remote = tool

    @property
    def tool_name(self) -> str:
        return self.remote.name

    @property
    def tool_type(self) -> str:
        return "python"

    @property
    def tool_spec(self) -> dict[str, Any]:
        tool = self.remote
        spec: dict[str, Any] = {
            "name": tool.name,
            "description": tool.description or tool.name,
            "inputSchema": {"json": tool.input_schema},
        }
        if tool.output_schema is not None:
            spec["outputSchema"] = {"json": tool.output_schema}
        if tool.annotations:
            spec["annotations"] = tool.annotations
        return spec

    async def stream(
        self, tool_use: dict[str, Any], invocation_state: dict[str, Any], **_: Any
    ) -> AsyncIterator[Any]:
        result: dict[str, Any] = {"toolUseId": tool_use["toolUseId"], "status": "success"}
        try:
            answer = await self._call(tool_use["input"], invocation_state.get("agent"))
            result["content"] = [_content(part) for part in parts(answer)]
            if answer.structured_content is not None:
                result["structuredContent"] = answer.structured_content
        except READABLE as error:
            result |= {"status": "error", "content": [{"text": error.message}]}
        yield events.ToolResultEvent(result)

    async def _call(self, arguments: dict[str, Any], agent: Any) -> ToolResult:
        """Call the tool until it answers, or until ``agent.cancel()``."""
        signal = getattr(agent, "cancel_signal", None)
        if signal is None:
            return await self.remote.call(arguments)
        call = asyncio.ensure_future(self.remote.call(arguments))
        try:
            while not (await asyncio.wait([call], timeout=CANCEL_CHECK_SECONDS))[0]:
                if signal.is_set():
                    raise ToolError("the agent cancelled the call")
            return await call
        finally:
            call.cancel()


def _content(part: Part) -> dict[str, Any]:
    if part.kind == "image" and part.mime_type in IMAGES:
        return {"image": {"format": IMAGES[part.mime_type], "source": {"bytes": part.bytes}}}
    return {"text": str(part)}
