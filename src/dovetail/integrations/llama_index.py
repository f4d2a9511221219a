"""LlamaIndex: the tools of a client as `AsyncBaseTool`.

A result is a `ToolOutput` with blocks of text, images, sounds and files; ``raw_output`` is the structured content, or
the text. A failed tool gives an output with ``is_error``.
"""

from __future__ import annotations

from typing import Any

from ..client import Client
from ..client.calling.results import ToolResult
from .remote_tools import (
    READABLE,
    Part,
    RemoteTool,
    arguments_model,
    blocking,
    framework,
    parts,
    remote_tools,
)

types: Any = framework("llama_index.core.tools.types", "llama-index-core")
llms: Any = framework("llama_index.core.base.llms.types", "llama-index-core")


async def load_tools(client: Client) -> list[Any]:
    """The tools of ``client`` for `FunctionAgent` and all else that takes tools."""
    return [McpTool(tool) for tool in await remote_tools(client)]


load_tools_sync = blocking(load_tools)


class McpTool(types.AsyncBaseTool):
    """A tool of a server. ``await tool.acall(city="Oslo")``, or ``tool.call(…)`` in a thread."""

    def __init__(self, tool: RemoteTool) -> None:
        self.remote = tool
        self._metadata = _Metadata(tool)

    @property
    def metadata(self) -> Any:
        return self._metadata

    async def acall(self, **arguments: Any) -> Any:
        try:
            return self._output(arguments, await self.remote.call(arguments))
        except READABLE as error:
            return self._failure(arguments, error)

    def call(self, **arguments: Any) -> Any:
        try:
            return self._output(arguments, self.remote.call_from_thread(arguments))
        except READABLE as error:
            return self._failure(arguments, error)

    def _output(self, arguments: dict[str, Any], result: ToolResult) -> Any:
        raw = result.text if result.structured_content is None else result.data
        return types.ToolOutput(
            self.remote.name,
            blocks=[_block(part) for part in parts(result)],
            raw_input=arguments,
            raw_output=raw,
        )

    def _failure(self, arguments: dict[str, Any], error: Any) -> Any:
        return types.ToolOutput(
            self.remote.name,
            content=error.message,
            raw_input=arguments,
            raw_output=error.message,
            is_error=True,
            exception=error,
        )


class _Metadata(types.ToolMetadata):
    """What is said of a tool, with the parameters as the server has them."""

    def __init__(self, tool: RemoteTool) -> None:
        super().__init__(tool.description, tool.name, arguments_model(tool))  # pyright: ignore[reportUnknownMemberType]
        self._schema = tool.input_schema

    def get_parameters_dict(self) -> dict[str, Any]:
        return dict(self._schema)


def _block(part: Part) -> Any:
    if part.kind == "image":
        return llms.ImageBlock(image=part.bytes, image_mimetype=part.mime_type)
    if part.kind == "audio":
        return llms.AudioBlock(audio=part.bytes, format=part.mime_type.partition("/")[2])
    if part.kind == "file":
        return llms.DocumentBlock(data=part.bytes, document_mimetype=part.mime_type, url=part.uri or None)
    return llms.TextBlock(text=part.text)
