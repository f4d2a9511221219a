"""Calls that were told to stop and have not: until they have ended they are under way, like any other."""

from __future__ import annotations

import asyncio
from typing import Any

from ..core.budget import Account, busy, too_many
from ..errors import Refusal


class Stopping:
    """Those of one connection or session; ``everybody`` counts those of all, however their peers have left."""

    __slots__ = ("_most", "everybody", "tasks")

    def __init__(self, account: Account, most: int) -> None:
        self.everybody = account
        self._most = most
        self.tasks: dict[asyncio.Task[Any], int] = {}
        """Who works on them, and how many each of them counts among those of all."""

    def stop(self, task: asyncio.Task[Any]) -> None:
        """Cancel ``task``; say when its call has `ended`."""
        self.tasks.setdefault(task, 0)
        task.cancel()
        # Most of them end with that: however many they are, they take nothing from others.
        task.get_loop().call_soon(self._count, task)

    def _count(self, task: asyncio.Task[Any]) -> None:
        if self.tasks.get(task) == 0:
            self.tasks[task] = 1
            self.everybody.taken += 1

    def ended(self, task: asyncio.Task[Any]) -> None:
        self.everybody.taken -= self.tasks.pop(task, 0)

    def refusal(self) -> Refusal | None:
        """Why no further call may begin, if so."""
        if len(self.tasks) >= self._most:
            return too_many()
        return busy("requests in flight") if self.everybody.taken >= self.everybody.limit else None
