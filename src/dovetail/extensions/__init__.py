"""Extensions of the protocol. `apps` has MCP Apps: tools whose results a host shows as a page."""

from .apps import App

__all__ = ["App"]
