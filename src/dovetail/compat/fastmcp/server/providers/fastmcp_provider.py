"""`FastMCPProvider`: the components of another server, with its middleware around them and its lifespan."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from pydantic import Field, PrivateAttr

from ...prompts.base import Prompt, PromptResult
from ...resources.base import Resource, ResourceResult
from ...resources.template import ResourceTemplate, query_names
from ...tools.base import Tool, ToolResult
from .base import Provider

if TYPE_CHECKING:
    from ..server import FastMCP


class MountedTool(Tool):
    """A tool of the server behind; whatever it is called here, there it has its own name."""

    server: Any = Field(exclude=True)
    _name: str = PrivateAttr("")

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        return await self.server.call_tool(self._name, arguments)


class MountedResource(Resource):
    server: Any = Field(exclude=True)
    _uri: str = PrivateAttr("")

    async def read_result(self) -> ResourceResult:
        return await self.server.read_resource(self._uri)

    async def read(self) -> Any:
        return (await self.read_result()).contents[0].content


class MountedTemplate(ResourceTemplate):
    server: Any = Field(exclude=True)
    _template: Any = PrivateAttr(None)

    async def read_result(self, uri: str, arguments: dict[str, Any]) -> ResourceResult:
        plain = self._template.uri_template
        for name, value in arguments.items():
            plain = plain.replace("{" + name + "}", str(value)).replace("{" + name + "*}", str(value))
        query = {name: arguments[name] for name in query_names(plain) if name in arguments}
        plain = plain.partition("{?")[0] + (f"?{urlencode(query)}" if query else "")
        return await self.server.read_resource(plain)


class MountedPrompt(Prompt):
    server: Any = Field(exclude=True)
    _name: str = PrivateAttr("")

    async def render_result(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        return await self.server.render_prompt(self._name, arguments)


class FastMCPProvider(Provider):
    """What another server has, as it shows it itself."""

    def __init__(self, server: FastMCP[Any]) -> None:
        super().__init__()
        self.server = server
        self.shown = (server,)

    def _tool(self, tool: Any) -> Any:
        made = MountedTool(server=self.server, **_members(tool, Tool))
        made._name = tool.name  # pyright: ignore[reportPrivateUsage]
        return made

    def _resource(self, resource: Any) -> Any:
        made = MountedResource(server=self.server, **_members(resource, Resource))
        made._uri = str(resource.uri)  # pyright: ignore[reportPrivateUsage]
        return made

    def _template(self, template: Any) -> Any:
        made = MountedTemplate(server=self.server, **_members(template, ResourceTemplate))
        made._template = template  # pyright: ignore[reportPrivateUsage]
        return made

    def _prompt(self, prompt: Any) -> Any:
        made = MountedPrompt(server=self.server, **_members(prompt, Prompt))
        made._name = prompt.name  # pyright: ignore[reportPrivateUsage]
        return made

    async def _list_tools(self) -> Sequence[Any]:
        return [self._tool(one) for one in await self.server.list_tools()]

    async def _get_tool(self, name: str, version: Any = None) -> Any:
        found = await self.server.find("tool", name, version)
        return None if found is None else self._tool(found)

    async def _list_resources(self) -> Sequence[Any]:
        return [self._resource(one) for one in await self.server.list_resources()]

    async def _get_resource(self, uri: str, version: Any = None) -> Any:
        found = await self.server.find("resource", uri, version)
        return None if found is None else self._resource(found)

    async def _list_resource_templates(self) -> Sequence[Any]:
        return [self._template(one) for one in await self.server.list_resource_templates()]

    async def _get_resource_template(self, uri: str, version: Any = None) -> Any:
        found = await self.server.find("resource_template", uri, version)
        return None if found is None else self._template(found)

    async def _list_prompts(self) -> Sequence[Any]:
        return [self._prompt(one) for one in await self.server.list_prompts()]

    async def _get_prompt(self, name: str, version: Any = None) -> Any:
        found = await self.server.find("prompt", name, version)
        return None if found is None else self._prompt(found)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        async with self.server.running_lifespan():
            yield


def _members(component: Any, kind: type[Any]) -> dict[str, Any]:
    return {name: getattr(component, name) for name in kind.model_fields}
