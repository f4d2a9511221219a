"""`Tool` and `ToolResult`, and how a returned value becomes content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, cast

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from ....shapes import is_object
from ...common.blocks import blocks
from ...common.media import Audio, File, Image
from ...mcp import types as t
from ...mcp.types import TextContent, ToolAnnotations, ToolExecution
from ..generation import generation
from ..utilities.components import FastMCPComponent
from ..utilities.types import NotSet

WRAPPED: Final = "x-fastmcp-wrap-result"
"""Marks an output schema whose value is the one member ``result``."""
ToolResultSerializerType = Callable[[Any], str]


def default_serializer(data: Any) -> str:
    return to_json(data, fallback=str).decode()


def to_content(value: Any, serializer: ToolResultSerializerType | None = None) -> list[Any]:
    """The content blocks of what a tool returned."""
    if value is None:
        return []
    if isinstance(value, str):
        return [TextContent(type="text", text=value)]
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        if not items:
            return []
        if any(isinstance(item, (*blocks(), Image, Audio, File)) for item in items):
            return [_block(item, serializer) for item in items]
    return [_block(value, serializer)]


def _block(value: Any, serializer: ToolResultSerializerType | None) -> Any:
    match value:
        case Image():
            return value.to_image_content()
        case Audio():
            return value.to_audio_content()
        case File():
            return value.to_resource_content()
        case str():
            return TextContent(type="text", text=value)
        case bytes() if generation() == 3 and serializer is None:
            return TextContent(type="text", text=value.decode("utf-8", "replace"))
        case _:
            if isinstance(value, blocks()):
                return value
            return TextContent(type="text", text=(serializer or default_serializer)(value))


class ToolResult(BaseModel):
    """All that a tool answers with: content, structured content, ``_meta``."""

    model_config = ConfigDict(arbitrary_types_allowed=True, defer_build=True)

    content: list[Any]
    structured_content: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None
    is_error: bool = False

    def __init__(
        self,
        content: Any = None,
        structured_content: Any = None,
        meta: dict[str, Any] | None = None,
        is_error: bool = False,
    ) -> None:
        if content is None and structured_content is None:
            raise ValueError("Either content or structured_content must be provided")
        if structured_content is not None and type(structured_content) is not dict:
            structured_content = _object(structured_content)
        elif structured_content is not None:
            structured_content = to_jsonable_python(structured_content)
        if content is None:
            content = to_content(structured_content)
        elif type(content) is not list or not _all_blocks(cast("list[Any]", content)):
            content = self._mixed(content)
        _fill(self, content, structured_content, meta, is_error)

    @staticmethod
    def _mixed(content: Any) -> list[Any]:
        if isinstance(content, list) and any(
            isinstance(item, blocks()) for item in cast("list[Any]", content)
        ):
            return [_block(item, None) for item in cast("list[Any]", content)]
        return to_content(content)

    def to_mcp_result(self) -> Any:
        """As the lower level takes it: content, content and data, or a whole result."""
        if self.meta is not None or self.is_error:
            return t.CallToolResult(
                content=self.content, structuredContent=self.structured_content, isError=self.is_error,
                _meta=self.meta,
            )  # fmt: skip
        if self.structured_content is None:
            return self.content
        return self.content, self.structured_content


def _fill(result: ToolResult, content: Any, structured: Any, meta: Any, is_error: bool) -> None:
    """Set the members, which are what they are to be: pydantic has nothing to check."""
    members: dict[str, Any] = {
        "content": content, "structured_content": structured, "meta": meta, "is_error": is_error,
    }  # fmt: skip
    assign = object.__setattr__
    assign(result, "__dict__", members)
    assign(result, "__pydantic_fields_set__", set(members))
    assign(result, "__pydantic_extra__", None)
    assign(result, "__pydantic_private__", None)


def _made(
    content: list[Any], structured: dict[str, Any] | None, meta: dict[str, Any] | None = None
) -> ToolResult:
    """A result of content blocks and plain data."""
    result = ToolResult.__new__(ToolResult)
    _fill(result, content, structured, meta, False)
    return result


def _all_blocks(content: list[Any]) -> bool:
    return len([item for item in content if isinstance(item, blocks())]) == len(content)


def _object(value: Any) -> dict[str, Any]:
    try:
        data = to_jsonable_python(value)
    except PydanticSerializationError:
        data = value
    if not is_object(data):
        raise ValueError(
            f"structured_content must be a dict or None. Got {type(value).__name__}: {value!r}. Tools should wrap "
            "non-dict values based on their output_schema."
        )
    return data


class Tool(FastMCPComponent):
    """A tool; inherit it and write `run`, or make one of a function with `from_function`."""

    KEY_PREFIX: ClassVar[str] = "tool"

    parameters: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    execution: ToolExecution | None = None
    serializer: ToolResultSerializerType | None = Field(default=None, exclude=True)
    timeout: float | None = None
    run_in_thread: bool = True

    @classmethod
    def from_function(cls, fn: Callable[..., Any], name: str | None = None, **options: Any) -> Any:
        """A tool that calls ``fn``."""
        from .function_tool import FunctionTool

        return FunctionTool.from_function(fn, name=name, **options)

    @classmethod
    def from_tool(cls, tool: Any, **changes: Any) -> Any:
        """A tool that is ``tool`` with another name, description or arguments."""
        from .tool_transform import TransformedTool

        return TransformedTool.from_tool(tool, **changes)

    def to_mcp_tool(self, *, include_fastmcp_meta: bool | None = None, **overrides: Any) -> t.Tool:
        """The tool as the protocol shows it."""
        members: dict[str, Any] = {
            **self.common(include_fastmcp_meta),
            "inputSchema": self.parameters, "outputSchema": self.output_schema, "annotations": self.annotations,
            "execution": self.execution,
        }  # fmt: skip
        if self.title is None and self.annotations is not None and self.annotations.title:
            members["title"] = self.annotations.title
        return t.Tool(**{**members, **overrides})

    def as_written(self) -> dict[str, Any]:
        """The schemas as ``FastMCP(dereference_schemas=False)`` shows them, where they differ."""
        return {}

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Run the tool."""
        raise NotImplementedError("Subclasses must implement run()")

    def convert_result(self, raw_value: Any) -> ToolResult:
        """The result of a run that returned ``raw_value``."""
        if isinstance(raw_value, ToolResult):
            return raw_value
        schema, content = self.output_schema, to_content(raw_value, self.serializer)
        if schema is None:
            return _made(content, _structured(raw_value))
        if WRAPPED in schema:
            meta = None if generation() == 2 else {"fastmcp": {"wrap_result": True}}
            return _made(content, {"result": to_jsonable_python(raw_value)}, meta)
        return ToolResult(content, raw_value)


def _structured(value: Any) -> dict[str, Any] | None:
    """An object is structured content though nobody has declared it."""
    if value is None or isinstance(
        value, (str, bytes, int, float, list, tuple, *blocks(), Image, Audio, File)
    ):
        return None
    try:
        data = to_jsonable_python(value)
    except (PydanticSerializationError, ValueError):
        return None
    return data if is_object(data) else None


__all__ = [
    "NotSet", "TextContent", "Tool", "ToolAnnotations", "ToolResult", "ToolResultSerializerType", "default_serializer",
    "to_content",
]  # fmt: skip
