"""Which parameter of a function is its context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .....common.signatures import find_parameter


def find_context_parameter(fn: Callable[..., Any]) -> str | None:
    """The parameter annotated with `Context`; None without."""
    from ..server import Context

    return find_parameter(fn, Context)


def inject_context(
    fn: Callable[..., Any], kwargs: dict[str, Any], context: Any, context_kwarg: str | None
) -> dict[str, Any]:
    """``kwargs`` with the context, where one is wanted and there is one."""
    return {**kwargs, context_kwarg: context} if context_kwarg is not None and context is not None else kwargs
