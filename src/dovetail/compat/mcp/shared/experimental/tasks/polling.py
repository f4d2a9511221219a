"""Looking at a task until it is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from ....types import GetTaskResult
from .helpers import is_terminal


async def poll_until_terminal(
    get_task: Callable[[str], Awaitable[GetTaskResult]], task_id: str, default_interval_ms: int = 500
) -> AsyncIterator[GetTaskResult]:
    """Each state that is seen, the last one included; between two looks as long as the server wants."""
    while True:
        seen = await get_task(task_id)
        yield seen
        if is_terminal(seen.status):
            return
        wait = default_interval_ms if seen.pollInterval is None else seen.pollInterval
        await asyncio.sleep(wait / 1000)
