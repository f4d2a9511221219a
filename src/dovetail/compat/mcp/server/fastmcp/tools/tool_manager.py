"""`ToolManager`: the tools by name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ..exceptions import ToolError
from .base import Tool

log = logging.getLogger("mcp.server.fastmcp")


class ToolManager:
    """The tools of a server. Of two with one name the first stays."""

    def __init__(self, warn_on_duplicate_tools: bool = True, *, tools: list[Tool] | None = None) -> None:
        self._tools: dict[str, Tool] = {tool.name: tool for tool in tools or ()}
        self.warn_on_duplicate_tools = warn_on_duplicate_tools

    def get_tool(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def list_tools(self) -> list[Tool]:
        return list(self._tools.values())

    def add_tool(self, fn: Callable[..., Any], name: str | None = None, **options: Any) -> Tool:
        tool = Tool.from_function(fn, name=name, **options)
        present = self._tools.get(tool.name)
        if present is not None:
            if self.warn_on_duplicate_tools:
                log.warning("Tool already exists: %s", tool.name)
            return present
        self._tools[tool.name] = tool
        return tool

    def remove_tool(self, name: str) -> None:
        if name not in self._tools:
            raise ToolError(f"Unknown tool: {name}")
        del self._tools[name]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Any = None, convert_result: bool = False
    ) -> Any:
        tool = self._tools.get(name)
        if tool is None:
            raise ToolError(f"Unknown tool: {name}")
        return await tool.run(arguments, context=context, convert_result=convert_result)
