"""Tools."""

from ...mcp.types import ToolAnnotations
from . import (
    tool as _module,  # before the decorator of that name: later imports of the module leave the name alone
)
from .base import Tool, ToolResult
from .function_tool import FunctionTool, tool
from .tool_transform import forward, forward_raw

del _module
__all__ = ["FunctionTool", "Tool", "ToolAnnotations", "ToolResult", "forward", "forward_raw", "tool"]
