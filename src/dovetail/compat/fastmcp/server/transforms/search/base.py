"""What both searches have in common: two tools in place of a long list, over the search that Dovetail has."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Annotated, Any

from msgspec import UNSET

from ......model import Tool as NativeTool
from ....exceptions import NotFoundError
from ....tools.base import Tool, ToolResult
from ...context import Context
from ..base import Next, Transform

SearchResultSerializer = Callable[[Sequence[Any]], Any | Awaitable[Any]]
_whole: ContextVar[bool] = ContextVar("_whole", default=False)
"""The whole list is wanted: we are looking into it."""


def serialize_tools_for_output_json(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """The tools as a list of the protocol has them."""
    return [one.to_mcp_tool().model_dump(mode="json", by_alias=True, exclude_none=True) for one in tools]


class SearchTransform(Transform):
    """Lists ``always_visible``, one tool that finds others, and one that calls what was found."""

    def __init__(
        self, *, max_results: int = 5, always_visible: list[str] | None = None,
        search_tool_name: str = "search_tools", call_tool_name: str = "call_tool",
        search_result_serializer: SearchResultSerializer | None = None,
    ) -> None:  # fmt: skip
        self.max_results = max_results
        self._always = set(always_visible or ())
        self._serialize = search_result_serializer or serialize_tools_for_output_json
        self._own = {
            search_tool_name: Tool.from_function(self.search_function(), name=search_tool_name),
            call_tool_name: Tool.from_function(self._call, name=call_tool_name),
        }

    def search_function(self) -> Callable[..., Any]:
        """The function of the tool that finds others."""
        raise NotImplementedError

    async def list_tools(self, tools: Sequence[Any]) -> Sequence[Any]:
        if _whole.get():
            return tools
        return [*(one for one in tools if one.name in self._always), *self._own.values()]

    async def get_tool(self, name: str, call_next: Next, *, version: Any = None) -> Any:
        return self._own.get(name) or await call_next(name, version=version)

    async def catalog(self, ctx: Context) -> list[Any]:
        """All tools that this caller would be shown."""
        token = _whole.set(True)
        try:
            return list(await ctx.fastmcp.list_tools())
        finally:
            _whole.reset(token)

    async def hidden(self, ctx: Context) -> list[Any]:
        """Those of them that are not listed."""
        return [one for one in await self.catalog(ctx) if one.name not in self._always]

    async def shown(self, found: Sequence[Any]) -> Any:
        """What a search answers."""
        value = self._serialize(found[: self.max_results])
        return await value if inspect.isawaitable(value) else value

    async def _call(
        self,
        name: Annotated[str, "The name of the tool to call"],
        ctx: Context,
        arguments: Annotated[dict[str, Any] | None, "Arguments to pass to the tool"] = None,
    ) -> ToolResult:
        """Call a tool that a search has found, by its name."""
        if name in self._own:
            raise ValueError(f"{name!r} is part of the search and cannot be called through it")
        if all(one.name != name for one in await self.catalog(ctx)):
            raise NotFoundError(f"Unknown tool: {name!r}")
        return await ctx.fastmcp.call_tool(name, arguments)


def native(tool: Any) -> NativeTool:
    """A tool as our search reads it."""
    return NativeTool(
        tool.name, tool.parameters, title=tool.title or UNSET, description=tool.description or UNSET
    )
