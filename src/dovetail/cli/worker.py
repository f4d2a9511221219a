"""``dovetail worker FILE[:name]``: run the tasks of a server whose calls arrive elsewhere."""

from __future__ import annotations

import argparse
import asyncio
import sys

from .. import Server
from ..errors import DovetailError
from ..stores.bounds import WORKER_TASKS
from ..transports.running import Stop
from ..transports.running import run as run_process
from . import target


def parser() -> argparse.ArgumentParser:
    result = target.server_parser(
        "worker", "Run the tasks of the Server in FILE. The processes that serve it have the same store."
    )
    result.add_argument(
        "--tasks", type=int, default=WORKER_TASKS, metavar="N", help=f"at once (default: {WORKER_TASKS})"
    )
    return result


def main(command: str, arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    server = target.server_of(options)
    if server.store is None:
        raise DovetailError("a worker needs the store of its server: --store redis://HOST:PORT/DB")
    return run_process(lambda stop: _work(server, options.tasks, stop), threads=server.limits.threads)


async def _work(server: Server, at_once: int, stop: Stop) -> None:
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
