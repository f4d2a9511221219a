"""Middleware that shows tools of its own; two of them let clients that know tools alone use prompts and resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from ....mcp import types as t
from ...resources.base import ResourceContent
from ...tools.base import Tool
from ..context import Context
from .middleware import Middleware, MiddlewareContext


class ToolInjectionMiddleware(Middleware):
    """Shows ``tools`` before those of the server, and runs them itself."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._own = {tool.name: tool for tool in tools}

    async def on_list_tools(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        return [*self._own.values(), *await call_next(context)]

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        tool = self._own.get(context.message.name)
        return await (call_next(context) if tool is None else tool.run(context.message.arguments or {}))


async def list_prompts(context: Context) -> list[t.Prompt]:
    """List prompts available on the server."""
    return await context.list_prompts()


async def get_prompt(
    context: Context,
    name: Annotated[str, Field(description="The name of the prompt to render.")],
    arguments: Annotated[
        dict[str, Any] | None, Field(description="The arguments to render the prompt with.")
    ] = None,
) -> t.GetPromptResult:
    """Render a prompt available on the server."""
    return await context.get_prompt(name, arguments)


async def list_resources(context: Context) -> list[t.Resource]:
    """List resources available on the server."""
    return await context.list_resources()


async def read_resource(
    context: Context, uri: Annotated[str, Field(description="The URI of the resource to read.")]
) -> list[ResourceContent]:
    """Read a resource available on the server."""
    found = await context.read_resource(uri)
    return getattr(found, "contents", found)


class PromptToolMiddleware(ToolInjectionMiddleware):
    """Prompts as two tools."""

    def __init__(self) -> None:
        super().__init__([Tool.from_function(list_prompts), Tool.from_function(get_prompt)])


class ResourceToolMiddleware(ToolInjectionMiddleware):
    """Resources as two tools."""

    def __init__(self) -> None:
        super().__init__([Tool.from_function(list_resources), Tool.from_function(read_resource)])


__all__ = ["PromptToolMiddleware", "ResourceToolMiddleware", "ToolInjectionMiddleware"]
