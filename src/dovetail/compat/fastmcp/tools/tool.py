"""Where FastMCP 2 has its tools."""

from ...common.media import Audio, File, Image
from ...mcp.types import TextContent, ToolAnnotations
from .base import Tool, ToolResult, ToolResultSerializerType, default_serializer
from .function_tool import FunctionTool

__all__ = [
    "Audio", "File", "FunctionTool", "Image", "TextContent", "Tool", "ToolAnnotations", "ToolResult",
    "ToolResultSerializerType", "default_serializer",
]  # fmt: skip
