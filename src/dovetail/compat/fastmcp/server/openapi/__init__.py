"""Where FastMCP 2 has its HTTP APIs."""

from __future__ import annotations

from typing import Any

from ..providers.openapi import HTTPRoute, MCPType, OpenAPIProvider, RouteMap
from ..server import FastMCP

__all__ = ["FastMCPOpenAPI", "HTTPRoute", "MCPType", "OpenAPIProvider", "RouteMap"]

_WORDS = ("route_maps", "route_map_fn", "mcp_component_fn", "mcp_names", "tags", "validate_output")


class FastMCPOpenAPI(FastMCP[Any]):
    """A server for the HTTP API that ``openapi_spec`` describes."""

    def __init__(
        self, openapi_spec: dict[str, Any], client: Any = None, name: str | None = None,
        timeout: float | None = None, **options: Any,
    ) -> None:  # fmt: skip
        given = {word: options.pop(word) for word in _WORDS if word in options}
        super().__init__(name or "OpenAPI FastMCP", **options)
        self.add_provider(OpenAPIProvider(openapi_spec, client, **given))
