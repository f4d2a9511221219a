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
        self._tools: dict[str, Tool] = {}
        self.warn_on_duplicate_tools = warn_on_duplicate_tools
        for tool in tools or ():
            self._add(tool)

    def get_tool(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def list_tools(self) -> list[Tool]:
        return list(self._tools.values())

    def add_tool(self, fn: Callable[..., Any], name: str | None = None, **options: Any) -> Tool:
        return self._add(Tool.from_function(fn, name=name, **options))

    def _add(self, tool: Tool) -> Tool:
        if tool.name in self._tools and self.warn_on_duplicate_tools:
            log.warning("Tool already exists: %s", tool.name)
        return self._tools.setdefault(tool.name, tool)

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
