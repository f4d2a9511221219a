"""Where FastMCP 2 has its HTTP APIs."""

from ..providers.openapi import HTTPRoute, MCPType, OpenAPIProvider, RouteMap

__all__ = ["HTTPRoute", "MCPType", "OpenAPIProvider", "RouteMap"]
