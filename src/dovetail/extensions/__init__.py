"""Extensions of the protocol: `Extension` is the base of all. `apps` has MCP Apps: tools whose results a host shows."""

from .apps import App
from .base import Extension, ExtensionMethod

__all__ = ["App", "Extension", "ExtensionMethod"]
