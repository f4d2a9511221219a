"""`Namespace`: a prefix before the names of what another server has."""

from __future__ import annotations

import re
from typing import Any, Final

from ...generation import generation
from .base import Each, Next

_URI: Final = re.compile(r"([^:]+://)(.*)", re.DOTALL)


class Namespace(Each):
    """``forecast`` becomes ``weather_forecast``, ``city://oslo`` becomes ``city://weather/oslo``."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def name(self, name: str) -> str:
        return f"{self.prefix}_{name}"

    def uri(self, uri: str) -> str:
        found = _URI.fullmatch(uri)
        return uri if found is None else f"{found[1]}{self.prefix}/{found[2]}"

    def plain_name(self, name: str) -> str | None:
        start = f"{self.prefix}_"
        return name[len(start) :] if name.startswith(start) else None

    def plain_uri(self, uri: str) -> str | None:
        found = _URI.fullmatch(uri)
        if found is None:
            return uri
        start = f"{self.prefix}/"
        return found[1] + found[2][len(start) :] if found[2].startswith(start) else None

    def change(self, component: Any) -> Any:
        kind, update = component.KEY_PREFIX, dict[str, Any]()
        if kind in ("tool", "prompt") or generation() == 2:
            update["name"] = self.name(component.name)
        if kind == "resource":
            update["uri"] = self.uri(str(component.uri))
        elif kind == "template":
            update["uri_template"] = self.uri(component.uri_template)
        return component.model_copy(update=update)

    async def _plain(self, plain: str | None, call_next: Next, version: Any) -> Any:
        return None if plain is None else await self._one(plain, call_next, version)

    async def get_tool(self, name: str, call_next: Next, *, version: Any = None) -> Any:
        return await self._plain(self.plain_name(name), call_next, version)

    async def get_prompt(self, name: str, call_next: Next, *, version: Any = None) -> Any:
        return await self._plain(self.plain_name(name), call_next, version)

    async def get_resource(self, uri: str, call_next: Next, *, version: Any = None) -> Any:
        return await self._plain(self.plain_uri(uri), call_next, version)

    async def get_resource_template(self, uri: str, call_next: Next, *, version: Any = None) -> Any:
        return await self._plain(self.plain_uri(uri), call_next, version)


def add_resource_prefix(uri: str, prefix: str) -> str:
    """``city://oslo`` with ``weather`` is ``city://weather/oslo``."""
    if prefix and _URI.fullmatch(uri) is None:
        raise ValueError(f"Invalid URI format: {uri}. Expected protocol://path format.")
    return Namespace(prefix).uri(uri) if prefix else uri


def remove_resource_prefix(uri: str, prefix: str) -> str:
    """The URI as it was before; one without the prefix stays as it is."""
    if prefix and _URI.fullmatch(uri) is None:
        raise ValueError(f"Invalid URI format: {uri}. Expected protocol://path format.")
    return (Namespace(prefix).plain_uri(uri) or uri) if prefix else uri


def has_resource_prefix(uri: str, prefix: str) -> bool:
    """Whether the URI has the prefix."""
    if prefix and _URI.fullmatch(uri) is None:
        raise ValueError(f"Invalid URI format: {uri}. Expected protocol://path format.")
    return bool(prefix) and Namespace(prefix).plain_uri(uri) is not None
