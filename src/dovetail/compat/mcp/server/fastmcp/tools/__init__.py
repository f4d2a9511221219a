"""Tools. `tool_manager` has them by name, `base` what a tool is."""

from typing import TYPE_CHECKING

from .....later import later
from .tool_manager import ToolManager

if TYPE_CHECKING:
    from .base import Tool

__getattr__ = later(__name__, {"Tool": ".base"})
__all__ = ["Tool", "ToolManager"]
