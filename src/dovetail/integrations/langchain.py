"""LangChain and LangGraph: the tools of a client as `StructuredTool`, and LangChain tools as tools of a server.

A result is a list of content blocks; its structured content is the artifact, ``{"structured_content": …}``. A failed
tool gives a message with ``status="error"``, as LangChain wants it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..client import Client
from ..client.calling.results import ToolResult
from ..errors import ToolError
from ..model import AudioContent, ImageContent, TextContent
from ..shapes import is_object
from .remote_tools import READABLE, Part, RemoteTool, blocking, framework, object_schema, parts, remote_tools

tools: Any = framework("langchain_core.tools", "langchain-core")


async def load_tools(client: Client) -> list[Any]:
    """The tools of ``client`` as `langchain_core.tools.StructuredTool`, for ``await`` and for threads."""
    return [_structured_tool(tool) for tool in await remote_tools(client)]


load_tools_sync = blocking(load_tools)


def _structured_tool(tool: RemoteTool) -> Any:
    async def call(**arguments: Any) -> tuple[Any, Any]:
        try:
            return _answer(await tool.call(arguments))
        except READABLE as error:
            raise tools.ToolException(error.message) from error

    def call_from_thread(**arguments: Any) -> tuple[Any, Any]:
        try:
            return _answer(tool.call_from_thread(arguments))
        except READABLE as error:
            raise tools.ToolException(error.message) from error

    return tools.StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.input_schema,
        coroutine=call,
        func=call_from_thread,
        response_format="content_and_artifact",
        handle_tool_error=True,
        metadata={"mcp_name": tool.definition.name, **tool.annotations},
    )


def _answer(result: ToolResult) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    structured = result.structured_content
    artifact = None if structured is None else {"structured_content": structured}
    return [_block(part) for part in parts(result)], artifact


def _block(part: Part) -> dict[str, Any]:
    if part.kind in ("text", "link"):
        return {"type": "text", "text": part.text}
    return {"type": part.kind, "base64": part.data, "mime_type": part.mime_type}


def as_tools(tool: Any) -> Iterator[dict[str, Any]]:
    """A LangChain tool as the options of `Server.add_tool`."""

    async def call(arguments: dict[str, Any]) -> Any:
        request = {"type": "tool_call", "id": "mcp", "name": tool.name, "args": arguments}
        try:
            message = await tool.ainvoke(request)
        except tools.ToolException as error:
            raise ToolError(str(error)) from error
        content = [_content(block) for block in message.content_blocks]
        if message.status == "error":
            raise ToolError(message.text, content=content)
        return content

    described = tool.tool_call_schema
    schema = described if is_object(described) else described.model_json_schema()
    yield {
        "name": tool.name,
        "description": tool.description,
        "input_schema": object_schema(schema),
        "handler": call,
    }


def _content(block: dict[str, Any]) -> Any:
    """A standard content block of LangChain as one of the protocol; what the protocol does not know as JSON."""
    data, mime_type = block.get("base64"), block.get("mime_type", "")
    if data is not None and block["type"] in ("image", "audio"):
        return (ImageContent if block["type"] == "image" else AudioContent)(data, mime_type)
    return TextContent(block["text"] if block["type"] == "text" else json.dumps(block))
