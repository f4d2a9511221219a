"""`Provider`: where a server has its components from."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from ..transforms.base import Transform
from ..transforms.visibility import rules


class Provider:
    """Inherit it and write ``_list_…`` and ``_get_…`` for what it has. Its transforms change what comes out."""

    shown: tuple[Any, ...] = ()
    """The servers in this process whose components it has."""
    below: bool = False
    """What a server has itself wins over it, in FastMCP 2."""

    def __init__(self) -> None:
        self._transforms: list[Transform] = []
        self.chain = self._transforms
        """The same list, for those who only want to know whether there are any."""

    @property
    def transforms(self) -> list[Transform]:
        return list(self._transforms)

    def add_transform(self, transform: Transform) -> None:
        """Change what comes out of it, after all that was added before."""
        self._transforms.append(transform)
        self.components_changed()

    def components_changed(self) -> None:
        """What it has is another list now."""

    # What it has

    async def _list_tools(self) -> Sequence[Any]:
        return []

    async def _get_tool(self, name: str, version: Any = None) -> Any:
        return named(await self._list_tools(), name, version)

    async def _list_resources(self) -> Sequence[Any]:
        return []

    async def _get_resource(self, uri: str, version: Any = None) -> Any:
        found = [one for one in await self._list_resources() if str(one.uri) == uri]
        return found[0] if found else None

    async def _list_resource_templates(self) -> Sequence[Any]:
        return []

    async def _get_resource_template(self, uri: str, version: Any = None) -> Any:
        found = [one for one in await self._list_resource_templates() if one.matches(uri) is not None]
        return found[0] if found else None

    async def _list_prompts(self) -> Sequence[Any]:
        return []

    async def _get_prompt(self, name: str, version: Any = None) -> Any:
        return named(await self._list_prompts(), name, version)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        """Stands around the life of the server."""
        yield

    # What comes out

    async def provided(self, kind: str) -> Sequence[Any]:
        """The list ``kind``: tools, resources, resource_templates, prompts."""
        found: Sequence[Any] = await getattr(self, f"_list_{kind}")()
        for transform in self._transforms:
            found = await getattr(transform, f"list_{kind}")(found)
        return found

    async def look_up(self, kind: str, key: str, version: Any = None) -> Any:
        """The component of ``kind`` (tool, resource, resource_template, prompt) that ``key`` stands for, or None."""

        async def inner(key: str, *, version: Any = None) -> Any:
            return await getattr(self, f"_get_{kind}")(key, version)

        step: Any = inner
        for transform in self._transforms:
            step = partial(_through, getattr(transform, f"get_{kind}"), step)
        return await step(key, version=version)

    # Which are shown

    def enable(self, *, only: bool = False, **conditions: Any) -> Any:
        """Show what fits ``names``, ``keys``, ``tags``, ``components``, ``version``; with ``only``, nothing else."""
        for rule in rules(True, only, **conditions):
            self.add_transform(rule)
        return self

    def disable(self, **conditions: Any) -> Any:
        """Do not show what fits."""
        for rule in rules(False, **conditions):
            self.add_transform(rule)
        return self


async def _through(get: Any, inner: Any, key: str, *, version: Any = None) -> Any:
    return await get(key, inner, version=version)


def named(components: Sequence[Any], name: str, version: Any) -> Any:
    found = [
        one for one in components if one.name == name and (version is None or version.matches(one.version))
    ]
    return found[-1] if found else None
