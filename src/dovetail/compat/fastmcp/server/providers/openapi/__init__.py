"""HTTP APIs as components."""

from .provider import OpenAPIProvider
from .routing import HTTPRoute, MCPType, RouteMap

__all__ = ["HTTPRoute", "MCPType", "OpenAPIProvider", "RouteMap"]
