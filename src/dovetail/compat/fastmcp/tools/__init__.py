"""Tools."""

from typing import TYPE_CHECKING

from ...later import later
from ...mcp.types import ToolAnnotations
from . import (
    tool as _module,  # before the decorator of that name: later imports of the module leave the name alone
)
from .base import Tool, ToolResult
from .function_tool import FunctionTool, tool

if TYPE_CHECKING:
    from .tool_transform import forward, forward_raw

del _module
__getattr__ = later(__name__, {"forward": ".tool_transform", "forward_raw": ".tool_transform"})
__all__ = ["FunctionTool", "Tool", "ToolAnnotations", "ToolResult", "forward", "forward_raw", "tool"]
