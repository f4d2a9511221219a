"""Which call is served here. It is noted only in programs that have asked for `get_context`; see `ambient`."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .context import Context

wanted = False
"""Somebody in this program has imported `get_context`."""
context: ContextVar[Context | None] = ContextVar("dovetail_context", default=None)
