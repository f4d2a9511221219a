"""How far a call is."""

from collections.abc import Awaitable, Callable

ProgressHandler = Callable[[float, float | None, str | None], Awaitable[None]]

__all__ = ["ProgressHandler"]
