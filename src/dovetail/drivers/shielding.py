"""Shield a coroutine from cancellation until it has completed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` to completion even if the caller is cancelled, then re-raise the cancellation."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):  # a second cancellation is ignored too
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # the caller that would see this exception was cancelled
        raise
