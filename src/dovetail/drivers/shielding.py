"""Several writes that belong together are done together, whoever is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Do ``work`` whole, though whoever does it is cancelled meanwhile; the cancellation comes after it."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):  # who is cancelled twice is cancelled
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # who would have been told is gone
        raise
