"""Semantic Kernel: the tools of a client as `KernelFunction`.

``kernel.add_functions("shop", await load_tools(client))`` makes a plugin of them. The value of a result is text, or a
list of text, images, sounds and binary content. The structured content is in ``metadata["structured_content"]``. A
failed tool raises `FunctionExecutionException`, whose text the kernel gives to the model.
"""

from __future__ import annotations

from typing import Any

from ..client import Client
from ..client.calling.results import ToolResult
from .remote_tools import READABLE, Part, RemoteTool, blocking, framework, parts, remote_tools, text_of

functions: Any = framework("semantic_kernel.functions", "semantic-kernel")
contents: Any = framework("semantic_kernel.contents", "semantic-kernel")
binary: Any = framework("semantic_kernel.contents.binary_content", "semantic-kernel")
exceptions: Any = framework("semantic_kernel.exceptions", "semantic-kernel")


async def load_tools(client: Client) -> list[Any]:
    """The tools of ``client`` as functions of a kernel."""
    return [_function(tool) for tool in await remote_tools(client, characters="a-zA-Z0-9_")]


load_tools_sync = blocking(load_tools)


class McpFunction(functions.KernelFunction):
    """A tool of a server."""

    remote: Any

    async def _invoke_internal(self, context: Any) -> None:
        names = self.remote.input_schema["properties"]
        arguments = {name: context.arguments[name] for name in names if name in context.arguments}
        try:
            result = await self.remote.call(arguments)
        except READABLE as error:
            raise exceptions.FunctionExecutionException(error.message) from error
        context.result = functions.FunctionResult(
            function=self.metadata,
            value=_value(result),
            metadata={"structured_content": result.structured_content, "used_arguments": arguments},
        )

    async def _invoke_internal_stream(self, context: Any) -> None:
        """A tool answers at once: its whole result is the stream."""
        await self._invoke_internal(context)

        async def once() -> Any:
            yield context.result.value

        value = context.result.value
        context.result = functions.FunctionResult(
            function=self.metadata, value=once(), metadata={"value": value}
        )


def _function(tool: RemoteTool) -> Any:
    required = tool.input_schema.get("required", ())
    parameters = [
        functions.KernelParameterMetadata(
            name=name, is_required=name in required, type="", schema_data=schema, default_value=None
        )
        for name, schema in tool.input_schema["properties"].items()
    ]
    metadata = functions.KernelFunctionMetadata(
        name=tool.name,
        description=tool.description,
        parameters=parameters,
        return_parameter=functions.KernelParameterMetadata(
            name="return", type="", schema_data=tool.output_schema or {}
        ),
        is_prompt=False,
        is_asynchronous=True,
        additional_properties={"mcp_name": tool.definition.name, **tool.annotations},
    )
    return McpFunction(metadata=metadata, remote=tool)


def _value(result: ToolResult) -> Any:
    """One text where there is nothing else, which the kernel gives to the model as it is; else a list."""
    found = parts(result)
    if all(part.kind in ("text", "link") for part in found):
        return contents.TextContent(text=text_of(result))
    return [_content(part) for part in found]


def _content(part: Part) -> Any:
    if part.kind == "image":
        return contents.ImageContent(data=part.data, mime_type=part.mime_type)
    if part.kind == "audio":
        return contents.AudioContent(data=part.data, mime_type=part.mime_type)
    if part.kind == "file":
        return binary.BinaryContent(data=part.data, mime_type=part.mime_type, data_format="base64")
    return contents.TextContent(text=part.text)
