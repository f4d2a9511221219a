"""`Transform`: what stands between a provider and whoever lists or looks up its components."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

Next = Callable[..., Awaitable[Any]]
GetToolNext = GetResourceNext = GetResourceTemplateNext = GetPromptNext = Next


class Transform:
    """Inherit it and write what is to be changed; the rest passes through."""

    async def list_tools(self, tools: Sequence[Any]) -> Sequence[Any]:
        return tools

    async def get_tool(self, name: str, call_next: Next, *, version: Any = None) -> Any:
        return await call_next(name, version=version)

    async def list_resources(self, resources: Sequence[Any]) -> Sequence[Any]:
        return resources

    async def get_resource(self, uri: str, call_next: Next, *, version: Any = None) -> Any:
        return await call_next(uri, version=version)

    async def list_resource_templates(self, templates: Sequence[Any]) -> Sequence[Any]:
        return templates

    async def get_resource_template(self, uri: str, call_next: Next, *, version: Any = None) -> Any:
        return await call_next(uri, version=version)

    async def list_prompts(self, prompts: Sequence[Any]) -> Sequence[Any]:
        return prompts

    async def get_prompt(self, name: str, call_next: Next, *, version: Any = None) -> Any:
        return await call_next(name, version=version)


class Each(Transform):
    """A transform that does the same to every component: `change` it, or leave it out by returning None."""

    def change(self, component: Any) -> Any:
        raise NotImplementedError

    def _all(self, components: Sequence[Any]) -> list[Any]:
        return [one for one in map(self.change, components) if one is not None]

    async def _one(self, key: str, call_next: Next, version: Any) -> Any:
        found = await call_next(key, version=version)
        return None if found is None else self.change(found)

    async def list_tools(self, tools: Sequence[Any]) -> Sequence[Any]:
        return self._all(tools)

    async def list_resources(self, resources: Sequence[Any]) -> Sequence[Any]:
        return self._all(resources)

    async def list_resource_templates(self, templates: Sequence[Any]) -> Sequence[Any]:
        return self._all(templates)

    async def list_prompts(self, prompts: Sequence[Any]) -> Sequence[Any]:
        return self._all(prompts)

    async def get_tool(self, name: str, call_next: Next, *, version: Any = None) -> Any:
        return await self._one(name, call_next, version)

    async def get_resource(self, uri: str, call_next: Next, *, version: Any = None) -> Any:
        return await self._one(uri, call_next, version)

    async def get_resource_template(self, uri: str, call_next: Next, *, version: Any = None) -> Any:
        return await self._one(uri, call_next, version)

    async def get_prompt(self, name: str, call_next: Next, *, version: Any = None) -> Any:
        return await self._one(name, call_next, version)
