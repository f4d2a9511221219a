"""What a client answers to forms."""

from __future__ import annotations

from typing import Any, Generic

from typing_extensions import TypeVar

from ...mcp import types as t
from ...mcp.types import ElicitRequestParams

T = TypeVar("T", default=Any)


class ElicitResult(t.ElicitResult, Generic[T]):
    """An answer; its content may be an instance of the class that the handler was given for it."""

    content: Any = None


__all__ = ["ElicitRequestParams", "ElicitResult"]
