"""Where FastMCP 2 has its resources."""

from .base import FunctionResource, Resource, ResourceContent, ResourceResult

__all__ = ["FunctionResource", "Resource", "ResourceContent", "ResourceResult"]
