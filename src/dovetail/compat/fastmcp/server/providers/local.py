"""`LocalProvider`: the components that are registered with a server itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ...exceptions import NotFoundError
from ...generation import generation
from ...utilities.versions import version_key
from .base import Provider

log = logging.getLogger("fastmcp")

_WORDS = {"tool": "Tool", "resource": "Resource", "template": "Resource template", "prompt": "Prompt"}


class LocalProvider(Provider):
    """Tables of components; of those with one name the highest version is listed."""

    def __init__(self, on_duplicate: str = "error", changed: Callable[[str], None] | None = None) -> None:
        super().__init__()
        self._on_duplicate: dict[str, str] = dict.fromkeys(_WORDS, on_duplicate)
        self._changed = changed
        self._components: dict[str, Any] = {}
        """All versions, by key."""
        self.tables: dict[str, dict[str, Any]] = {kind: {} for kind in _WORDS}
        """What is listed, by name or URI."""

    def set_duplicates(self, kinds: Collection[str], said: str) -> None:
        """What becomes of a second component of these kinds with the same name."""
        self._on_duplicate |= dict.fromkeys(kinds, said)

    def add(self, component: Any) -> Any:
        """Register ``component``; one that is there already stays, goes, or is an error, as was agreed."""
        kind, name = component.KEY_PREFIX, _identity(component)
        key = _key(component)
        if key in self._components:
            said = self._on_duplicate[kind]
            if said == "error":
                words = f"{_WORDS[kind]} already exists: {name}"
                raise ValueError(words if generation() == 2 else f"Component already exists: {key}")
            if said == "ignore":
                return self._components[key]
            if said == "warn":
                log.warning("%s already exists: %s", _WORDS[kind], name)
        self._components[key] = component
        present = self.tables[kind].get(name)
        if present is None or version_key(component.version) >= version_key(present.version):
            self.tables[kind][name] = component
        self._tell(kind)
        return component

    def remove(self, kind: str, name: str, version: str | None = None) -> None:
        """Forget a component; without ``version``, all of its versions."""
        found = [
            key
            for key, one in self._components.items()
            if kind == one.KEY_PREFIX and _identity(one) == name and version in (None, one.version)
        ]
        if not found:
            raise NotFoundError(f"{_WORDS[kind]} {name!r} not found")
        for key in found:
            del self._components[key]
        self.tables[kind].pop(name, None)
        left = [one for one in self._components.values() if kind == one.KEY_PREFIX and _identity(one) == name]
        if left:
            self.tables[kind][name] = max(left, key=lambda one: version_key(one.version))
        self._tell(kind)

    def remove_tool(self, name: str, version: str | None = None) -> None:
        self.remove("tool", name, version)

    def remove_resource(self, uri: str, version: str | None = None) -> None:
        self.remove("resource", uri, version)

    def remove_template(self, uri_template: str, version: str | None = None) -> None:
        self.remove("template", uri_template, version)

    def remove_prompt(self, name: str, version: str | None = None) -> None:
        self.remove("prompt", name, version)

    def _tell(self, kind: str) -> None:
        if self._changed is not None:
            self._changed(kind)

    def components_changed(self) -> None:
        for kind in ("tool", "resource", "prompt"):
            self._tell(kind)

    def _find(self, kind: str, name: str, version: Any) -> Any:
        if version is None:
            return self.tables[kind].get(name)
        found = [
            one
            for one in self._components.values()
            if kind == one.KEY_PREFIX and _identity(one) == name and version.matches(one.version)
        ]
        return max(found, key=lambda one: version_key(one.version), default=None)

    async def _list_tools(self) -> Sequence[Any]:
        return list(self.tables["tool"].values())

    async def _get_tool(self, name: str, version: Any = None) -> Any:
        return self._find("tool", name, version)

    async def _list_resources(self) -> Sequence[Any]:
        return list(self.tables["resource"].values())

    async def _get_resource(self, uri: str, version: Any = None) -> Any:
        return self._find("resource", uri, version)

    async def _list_resource_templates(self) -> Sequence[Any]:
        return list(self.tables["template"].values())

    async def _get_resource_template(self, uri: str, version: Any = None) -> Any:
        for template in self.tables["template"].values():
            if template.matches(uri) is not None:
                return template
        return None

    async def _list_prompts(self) -> Sequence[Any]:
        return list(self.tables["prompt"].values())

    async def _get_prompt(self, name: str, version: Any = None) -> Any:
        return self._find("prompt", name, version)


def _identity(component: Any) -> str:
    if component.KEY_PREFIX == "resource":
        return str(component.uri)
    return component.uri_template if component.KEY_PREFIX == "template" else component.name


def _key(component: Any) -> str:
    return f"{component.KEY_PREFIX}:{_identity(component)}@{component.version or ''}"
