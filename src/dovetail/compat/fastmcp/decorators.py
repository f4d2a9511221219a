"""What a decorator without a server notes at a function."""

from __future__ import annotations

from typing import Any, Final, TypeVar

F = TypeVar("F")
_NOTE: Final = "__fastmcp__"


def attach(function: F, note: Any) -> F:
    """Note at ``function`` what it is to become."""
    target = getattr(function, "__func__", function)
    vars(target)[_NOTE] = note
    return function


def get_fastmcp_meta(fn: Any) -> Any:
    """What a decorator noted at ``fn``; None without."""
    target = getattr(fn, "__func__", fn)
    return getattr(target, _NOTE, None)
