"""Pydantic AI: the tools of a client as `Tool`, and tools or a `FunctionToolset` as tools of a server.

A result is the structured content where there is one, else text and binary content. A failed tool raises `ModelRetry`:
the model reads why and may call it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ..client import Client
from ..client.calling.results import ToolResult
from ..errors import ToolError
from ..model import AudioContent, ImageContent
from ..shapes import is_list
from .remote_tools import READABLE, Part, RemoteTool, blocking, framework, object_schema, parts, remote_tools

pydantic_ai: Any = framework("pydantic_ai", "pydantic-ai-slim")
test_model: Any = framework("pydantic_ai.models.test", "pydantic-ai-slim")


FAILURES = (pydantic_ai.ModelRetry, getattr(pydantic_ai, "ToolFailed", pydantic_ai.ModelRetry))


async def load_tools(client: Client) -> list[Any]:
    """The tools of ``client`` as `pydantic_ai.Tool`."""
    return [_tool(tool) for tool in await remote_tools(client)]


load_tools_sync = blocking(load_tools)


def _tool(tool: RemoteTool) -> Any:
    async def call(**arguments: Any) -> Any:
        try:
            return _value(await tool.call(arguments))
        except READABLE as error:
            raise pydantic_ai.ModelRetry(error.message) from error

    return pydantic_ai.Tool.from_schema(call, tool.name, tool.description, tool.input_schema)


def _value(result: ToolResult) -> Any:
    found = [_item(part) for part in parts(result)]
    if result.structured_content is not None and all(isinstance(item, str) for item in found):
        return result.data
    return found[0] if len(found) == 1 else found


def _item(part: Part) -> Any:
    if part.kind in ("text", "link"):
        return part.text
    return pydantic_ai.BinaryContent(part.bytes, media_type=part.mime_type)


def as_tools(tool: Any) -> Iterator[dict[str, Any]]:
    """A tool, or every tool of a `FunctionToolset`, as the options of `Server.add_tool`. Its context has no deps."""
    toolset = tool if isinstance(tool, pydantic_ai.FunctionToolset) else pydantic_ai.FunctionToolset([tool])
    for name, one in toolset.tools.items():
        yield {
            "name": name,
            "description": one.description,
            "input_schema": object_schema(one.function_schema.json_schema),
            "handler": partial(_call, toolset, name),
        }


async def _call(toolset: Any, name: str, arguments: dict[str, Any]) -> Any:
    context = pydantic_ai.RunContext(deps=None, model=test_model.TestModel(), usage=pydantic_ai.RunUsage())
    tool = (await toolset.get_tools(context))[name]
    try:
        values = tool.args_validator.validate_python(arguments)
    except ValueError as error:
        raise ToolError(f"invalid arguments: {error}") from error
    try:
        value = await toolset.call_tool(name, values, context, tool)
    except FAILURES as error:
        raise ToolError(str(error)) from error
    return [_content(each) for each in value] if is_list(value) else _content(value)


def _content(value: Any) -> Any:
    """What a tool returned, with binary content as that of the protocol."""
    if isinstance(value, pydantic_ai.BinaryContent) and value.is_image:
        return ImageContent(value.base64, value.media_type)
    if isinstance(value, pydantic_ai.BinaryContent) and value.is_audio:
        return AudioContent(value.base64, value.media_type)
    return value
