"""The context variable of the call that runs now. It is set only after `get_context` was imported; see
`current_context`.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .context import Context

wanted = False
"""True once any module has imported `get_context`."""
context: ContextVar[Context | None] = ContextVar("dovetail_context", default=None)
