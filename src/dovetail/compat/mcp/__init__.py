"""The module tree of SDK 1.x (``mcp``) over ours."""

from .shared.exceptions import McpError

__all__ = ["McpError"]
