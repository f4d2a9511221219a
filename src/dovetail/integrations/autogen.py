"""AutoGen: the tools of a client as `BaseTool`, or as a `Workbench`, which keeps images.

``AssistantAgent(tools=await load_tools(client))`` reads text; ``AssistantAgent(workbench=workbench(client))`` reads
images too and lists the tools again for every call of the model. A failed tool is an error result in both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ..client import Client
from ..errors import ToolError
from .remote_tools import (
    READABLE,
    Part,
    RemoteTool,
    arguments_model,
    blocking,
    framework,
    parts,
    remote_tools,
    text_of,
)

tools: Any = framework("autogen_core.tools", "autogen-core")
core: Any = framework("autogen_core", "autogen-core")
pydantic: Any = framework("pydantic", "pydantic")


async def load_tools(client: Client) -> list[Any]:
    """The tools of ``client`` as `autogen_core.tools.BaseTool`."""
    return [McpTool(tool) for tool in await remote_tools(client)]


load_tools_sync = blocking(load_tools)


def workbench(client: Client) -> Any:
    """The tools of ``client`` as a `Workbench`. It neither opens nor closes the client."""
    return McpWorkbench(client)


class McpTool(tools.BaseTool):
    """A tool of a server."""

    def __init__(self, tool: RemoteTool) -> None:
        super().__init__(arguments_model(tool), object, tool.name, tool.description)  # pyright: ignore[reportUnknownMemberType]
        self.remote = tool

    @property
    def schema(self) -> dict[str, Any]:
        return _schema(self.remote)

    async def run(self, args: Any, cancellation_token: Any) -> Any:
        return await _run(self.remote, args.model_dump(), cancellation_token)

    def return_value_as_string(self, value: Any) -> str:
        return text_of(value)


class McpWorkbench(tools.Workbench):
    """The tools of a client."""

    component_config_schema = pydantic.BaseModel

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tools: dict[str, RemoteTool] = {}

    async def list_tools(self) -> list[Any]:
        self._tools = {tool.name: tool for tool in await remote_tools(self._client)}
        return [_schema(tool) for tool in self._tools.values()]

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: Any = None,
        call_id: str | None = None,
    ) -> Any:
        if name not in self._tools:
            await self.list_tools()
        try:
            if name not in self._tools:
                raise ToolError(f"there is no tool {name!r}")
            result = await _run(self._tools[name], arguments, cancellation_token)
        except READABLE as error:
            return tools.ToolResult(name=name, result=[_text(error.message)], is_error=True)
        return tools.ToolResult(name=name, result=[_content(part) for part in parts(result)])

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def reset(self) -> None: ...

    async def save_state(self) -> Mapping[str, Any]:
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None: ...


def _schema(tool: RemoteTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        "strict": False,
    }


async def _run(tool: RemoteTool, arguments: Mapping[str, Any] | None, cancellation_token: Any) -> Any:
    call = asyncio.ensure_future(tool.call(arguments))
    if cancellation_token is not None:
        cancellation_token.link_future(call)
    try:
        return await call
    finally:
        call.cancel()


def _text(text: str) -> Any:
    return tools.TextResultContent(content=text)


def _content(part: Part) -> Any:
    if part.kind == "image":
        return tools.ImageResultContent(content=core.Image.from_base64(part.data))
    return _text(str(part))
