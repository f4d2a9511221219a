"""A worker process that runs the tasks of a server and serves no requests: ``dovetail worker``."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from ..transports.main_loop import Stop

if TYPE_CHECKING:
    from ..server.server import Server


async def work(server: Server, max_concurrent: int, stop: Stop) -> None:
    """Run up to ``max_concurrent`` tasks until ``stop``. Running tasks may finish within the grace period."""
    server.enable_tasks()
    async with server.running():
        assert server.tasks is not None
        tasks = server.tasks.tasks
        assert tasks.durable is not None
        serving = asyncio.create_task(tasks.durable.serve(max_concurrent))
        asked = asyncio.create_task(stop.wait())
        sys.stderr.write(f"worker started, running tasks of server {server.name}\n")
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
