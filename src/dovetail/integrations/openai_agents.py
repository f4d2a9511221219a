"""The OpenAI Agents SDK: the tools of a client as `FunctionTool`, and function tools as tools of a server.

A result is text, images and files as the SDK has them. The text of a failed tool is the output that the model reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..client import Client
from ..errors import ToolError
from ..model import ImageContent, TextContent
from ..shapes import is_list, is_object
from .remote_tools import READABLE, Part, RemoteTool, blocking, framework, object_schema, parts, remote_tools

agents: Any = framework("agents", "openai-agents")
tool_context: Any = framework("agents.tool_context", "openai-agents")


async def load_tools(client: Client) -> list[Any]:
    """The tools of ``client`` as `agents.FunctionTool`. Their schemas are not strict: they are the server's."""
    return [_function_tool(tool) for tool in await remote_tools(client)]


load_tools_sync = blocking(load_tools)


def _function_tool(tool: RemoteTool) -> Any:
    async def call(context: Any, arguments: str) -> Any:
        try:
            given = json.loads(arguments or "{}")
        except ValueError as error:
            raise agents.ModelBehaviorError(f"the arguments of {tool.name!r} are not JSON") from error
        if not is_object(given):
            raise agents.ModelBehaviorError(f"the arguments of {tool.name!r} are not a JSON object")
        try:
            found = [_output(part) for part in parts(await tool.call(given))]
        except READABLE as error:
            return error.message
        return found[0] if len(found) == 1 else found

    return agents.FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.input_schema,
        on_invoke_tool=call,
        strict_json_schema=False,
    )


def _output(part: Part) -> Any:
    if part.kind == "image":
        return agents.ToolOutputImage(image_url=part.data_url)
    if part.kind == "file":
        return agents.ToolOutputFileContent(
            file_data=part.data_url, filename=part.uri.rpartition("/")[2] or None
        )
    return agents.ToolOutputText(text=str(part))


def as_tools(tool: Any) -> Iterator[dict[str, Any]]:
    """A function tool as the options of `Server.add_tool`. Its context has no value: `ToolContext(context=None)`."""

    async def call(arguments: dict[str, Any]) -> Any:
        written = json.dumps(arguments)
        context = tool_context.ToolContext(
            None, tool_name=tool.name, tool_call_id="mcp", tool_arguments=written
        )
        try:
            value = await tool.on_invoke_tool(context, written)
        except agents.AgentsException as error:
            raise ToolError(str(error)) from error
        return [_content(each) for each in value] if is_list(value) else _content(value)

    yield {
        "name": tool.name,
        "description": tool.description,
        "input_schema": object_schema(tool.params_json_schema),
        "handler": call,
    }


def _content(output: Any) -> Any:
    """What a function tool returned, with the SDK's texts and images as those of the protocol."""
    if isinstance(output, agents.ToolOutputText):
        return TextContent(output.text)
    if isinstance(output, agents.ToolOutputImage) and (output.image_url or "").startswith("data:"):
        kind, _, data = output.image_url.removeprefix("data:").partition(";base64,")
        return ImageContent(data, kind)
    if isinstance(output, agents.ToolOutputImage | agents.ToolOutputFileContent):
        return TextContent(output.model_dump_json(exclude_none=True))
    return output
