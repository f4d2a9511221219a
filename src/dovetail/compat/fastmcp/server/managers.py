"""The managers of FastMCP 2, which servers reach for below its public face: views of what is registered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..exceptions import NotFoundError
from ..tools.function_tool import FunctionTool

if TYPE_CHECKING:
    from .server import FastMCP


class _Manager:
    kind = ""

    def __init__(self, server: FastMCP[Any]) -> None:
        self._server = server

    @property
    def _table(self) -> dict[str, Any]:
        return self._server.local_provider.tables[self.kind]

    def _get(self, key: str) -> Any:
        found = self._table.get(key)
        if found is None:
            raise NotFoundError(f"{self.kind.title()} {key!r} not found")
        return found


class ToolManager(_Manager):
    """The tools."""

    kind = "tool"

    @property
    def _tools(self) -> dict[str, Any]:
        return self._table

    @property
    def tools(self) -> dict[str, Any]:
        return self._table

    async def get_tools(self) -> dict[str, Any]:
        return dict(self._table)

    async def list_tools(self) -> list[Any]:
        return list(self._table.values())

    async def has_tool(self, key: str) -> bool:
        return key in self._table

    async def get_tool(self, key: str) -> Any:
        return self._get(key)

    def add_tool(self, tool: Any) -> Any:
        return self._server.add_tool(tool)

    def add_tool_from_fn(self, fn: Any, name: str | None = None, **options: Any) -> Any:
        return self._server.add_tool(FunctionTool.from_function(fn, name=name, **options))

    def remove_tool(self, key: str) -> None:
        self._server.remove_tool(key)

    async def call_tool(self, key: str, arguments: dict[str, Any]) -> Any:
        return await self._server.run_tool(key, arguments)


class ResourceManager(_Manager):
    """The resources and templates."""

    kind = "resource"

    @property
    def _resources(self) -> dict[str, Any]:
        return self._table

    @property
    def _templates(self) -> dict[str, Any]:
        return self._server.local_provider.tables["template"]

    async def get_resources(self) -> dict[str, Any]:
        return dict(self._table)

    async def get_resource_templates(self) -> dict[str, Any]:
        return dict(self._templates)

    def add_resource(self, resource: Any) -> Any:
        return self._server.add_resource(resource)

    def add_template(self, template: Any) -> Any:
        return self._server.add_template(template)


class PromptManager(_Manager):
    """The prompts."""

    kind = "prompt"

    @property
    def _prompts(self) -> dict[str, Any]:
        return self._table

    async def get_prompts(self) -> dict[str, Any]:
        return dict(self._table)

    async def get_prompt(self, key: str) -> Any:
        return self._get(key)

    def add_prompt(self, prompt: Any) -> Any:
        return self._server.add_prompt(prompt)
