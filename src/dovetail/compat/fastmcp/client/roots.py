"""The folders that a client shows."""

from collections.abc import Callable
from typing import Any

from ...mcp.shared.context import RequestContext
from ...mcp.types import Root

RootsList = list[str] | list[Root] | list[str | Root]
RootsHandler = Callable[[Any], Any]

__all__ = ["RequestContext", "RootsHandler", "RootsList"]
