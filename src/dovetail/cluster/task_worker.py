"""A worker process that runs the tasks of a server and serves no requests: ``dovetail worker``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..drivers.duplex import lifespan
from ..extensions.tasks.task_methods import tasks_of
from ..transports.main_loop import Stop

if TYPE_CHECKING:
    from ..server.dispatcher import Dispatcher


async def work(dispatcher: Dispatcher, max_concurrent: int, stop: Stop, ready: Callable[[], None]) -> None:
    """Run up to ``max_concurrent`` tasks until ``stop``. Running tasks finish first. Call ``ready`` after the start."""
    extension = tasks_of(dispatcher)
    async with lifespan(dispatcher):
        tasks = extension.runner
        serving = asyncio.create_task(tasks.sharing.serve(max_concurrent))
        asked = asyncio.create_task(stop.wait())
        ready()
        try:
            await asyncio.wait({serving, asked}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()  # raises the exception that ended it
            serving.cancel()
            await tasks.finish(stop.drain)
            await tasks.close()
            await asyncio.wait([serving])
        finally:
            asked.cancel()
            serving.cancel()
