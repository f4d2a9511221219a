"""What becomes of the routes of an HTTP API."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ......openapi.routes import Route
from ......shapes import is_object

METHODS: Final = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")


class MCPType(enum.Enum):
    """What a route becomes."""

    TOOL = "TOOL"
    RESOURCE = "RESOURCE"
    RESOURCE_TEMPLATE = "RESOURCE_TEMPLATE"
    EXCLUDE = "EXCLUDE"


_KINDS: Final[dict[MCPType, Literal["tool", "resource", "template"] | None]] = {
    MCPType.TOOL: "tool", MCPType.RESOURCE: "resource", MCPType.RESOURCE_TEMPLATE: "template", MCPType.EXCLUDE: None,
}  # fmt: skip


@dataclass(kw_only=True)
class RouteMap:
    """Routes that match all of this become ``mcp_type``."""

    methods: list[str] | Literal["*"] = "*"
    pattern: Any = ".*"
    tags: set[str] = field(default_factory=set[str])
    mcp_type: MCPType = MCPType.TOOL
    mcp_tags: set[str] = field(default_factory=set[str])

    def matches(self, route: HTTPRoute) -> bool:
        fits = self.methods == "*" or route.method in {one.upper() for one in self.methods}
        return fits and re.search(self.pattern, route.path) is not None and self.tags <= set(route.tags)

    def native(self) -> Route:
        """As a route of ours."""
        text = self.pattern if isinstance(self.pattern, str) else self.pattern.pattern
        methods = () if self.methods == "*" else tuple(self.methods)
        return Route(_KINDS[self.mcp_type], methods=methods, pattern=text, tags=tuple(self.tags))


@dataclass
class HTTPRoute:
    """One operation of an API, as its description has it."""

    path: str
    method: str
    operation_id: str | None = None
    summary: str | None = None
    description: str | None = None
    tags: list[str] = field(default_factory=list[str])
    extensions: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def name(self) -> str:
        """What ours calls it."""
        return self.operation_id or f"{self.method.lower()}{self.path}"


RouteMapFn = Callable[[HTTPRoute, MCPType], MCPType | None]
ComponentFn = Callable[[HTTPRoute, Any], None]


def routes_of(spec: dict[str, Any]) -> Iterator[HTTPRoute]:
    """All operations of a description."""
    for path, item in spec.get("paths", {}).items():
        for method in METHODS:
            found = item.get(method.lower()) if is_object(item) else None
            if is_object(found):
                own = {name: value for name, value in found.items() if name.startswith("x-")}
                yield HTTPRoute(
                    path, method, found.get("operationId"), found.get("summary"), found.get("description"),
                    list(found.get("tags", ())), own,
                )  # fmt: skip
