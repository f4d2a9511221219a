"""Cancelled calls whose task has not finished. They still count as in flight."""

from __future__ import annotations

import asyncio
from typing import Any

from ..core.limits import too_many_requests
from ..errors import Refusal


class CancelledCalls:
    """The cancelled calls of one connection or session whose task still runs.

    At most ``maximum`` are allowed.
    """

    __slots__ = ("_maximum", "tasks")

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self.tasks: set[asyncio.Task[Any]] = set()

    def cancel(self, task: asyncio.Task[Any]) -> None:
        """Cancel ``task``. Call `finished` when it has ended."""
        self.tasks.add(task)
        task.cancel()

    def finished(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)

    def refusal(self) -> Refusal | None:
        """Return the refusal for a new call if too many cancelled calls still run, else None."""
        return too_many_requests() if len(self.tasks) >= self._maximum else None
