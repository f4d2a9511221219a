"""`ToolManager`: the tools by name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ..exceptions import ToolError
from ..utilities.context_injection import find_context_parameter
from .reading_later import can_wait

if TYPE_CHECKING:
    from .base import Tool

log = logging.getLogger("mcp.server.fastmcp")


class ToolManager:
    """The tools of a server. Of two with one name the first stays."""

    def __init__(self, warn_on_duplicate_tools: bool = True, *, tools: list[Tool] | None = None) -> None:
        self._registered: dict[str, Any] = {}
        """Tools, and what makes those that were not looked at yet."""
        self.warn_on_duplicate_tools = warn_on_duplicate_tools
        for tool in tools or ():
            self._add(tool.name, tool)

    @cached_property
    def _tools(self) -> dict[str, Tool]:
        """From the first look on, all of them."""
        return {name: one() if isinstance(one, partial) else one for name, one in self._registered.items()}

    async def make(self) -> None:
        """Make what was not looked at yet, one by one: there may be hundreds, and others have the loop, too."""
        for name, one in list(self._registered.items()):
            if isinstance(one, partial) and "_tools" not in vars(self) and self._registered.get(name) is one:
                self._registered[name] = one()
                await asyncio.sleep(0)

    def _known(self) -> dict[str, Any]:
        return vars(self).get("_tools", self._registered)

    def get_tool(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def list_tools(self) -> list[Tool]:
        return list(self._tools.values())

    def register(self, fn: Callable[..., Any], name: str | None = None, **options: Any) -> None:
        """As `add_tool`, for whoever does not look at the tool: where nothing can be wrong, it is made later."""
        given = {"name": name, **options}
        context = find_context_parameter(fn) if callable(fn) else None
        if vars(self).keys() & {"_tools", "add_tool"} or not can_wait(fn, context, given):
            self.add_tool(fn, **given)
        else:
            given |= {"description": given.get("description") or fn.__doc__, "context_kwarg": context}
            self._add(name or fn.__name__, partial(_made, fn, **given))

    def add_tool(self, fn: Callable[..., Any], name: str | None = None, **options: Any) -> Tool:
        tool = _made(fn, name=name, **options)
        found = self._add(tool.name, tool)
        return self._tools[tool.name] if isinstance(found, partial) else found

    def _add(self, name: str, tool: Any) -> Any:
        known = self._known()
        if name in known and self.warn_on_duplicate_tools:
            log.warning("Tool already exists: %s", name)
        return known.setdefault(name, tool)

    def remove_tool(self, name: str) -> None:
        if name not in self._known():
            raise ToolError(f"Unknown tool: {name}")
        del self._known()[name]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Any = None, convert_result: bool = False
    ) -> Any:
        known: dict[str, Any] = vars(self).get("_tools", self._registered)
        if isinstance(known.get(name), partial):
            known[name] = known[name]()
        if (tool := known.get(name)) is None:
            raise ToolError(f"Unknown tool: {name}")
        return await tool.run(arguments, context=context, convert_result=convert_result)


def _made(fn: Callable[..., Any], **options: Any) -> Tool:
    from .base import Tool  # by now somebody wants one

    return Tool.from_function(fn, **options)
