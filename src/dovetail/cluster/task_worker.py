"""A process that runs the tasks of a server and takes no calls: ``dovetail worker``."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from ..transports.main_loop import Stop

if TYPE_CHECKING:
    from ..server.server import Server


async def work(server: Server, at_once: int, stop: Stop) -> None:
    """Run tasks, ``at_once`` so many, until ``stop``; what is under way may come to its end within its time."""
    server.enable_tasks()
    async with server.running():
        assert server.tasks is not None
        tasks = server.tasks.tasks
        assert tasks.durable is not None
        serving = asyncio.create_task(tasks.durable.serve(at_once))
        asked = asyncio.create_task(stop.wait())
        sys.stderr.write(f"running the tasks of {server.name}\n")
        try:
            await asyncio.wait({serving, asked}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()  # what ended it
            serving.cancel()
            await tasks.finish(stop.drain)
            await tasks.close()
            await asyncio.wait([serving])
        finally:
            asked.cancel()
            serving.cancel()
