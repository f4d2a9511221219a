"""``dovetail worker FILE[:name]``: run the tasks of a server that other processes serve."""

from __future__ import annotations

import argparse
from typing import Final

import msgspec

from ..cluster.task_worker import work
from ..errors import DovetailError
from ..stores.store_urls import check
from ..transports.bind_address import print_line
from ..transports.main_loop import Stop
from ..transports.main_loop import run as run_process
from . import option_sources, target

MAX_WORKER_TASKS: Final = 32
"""Default number of tasks that one ``dovetail worker`` runs concurrently."""


def parser() -> argparse.ArgumentParser:
    result = target.server_parser(
        "worker", "Run the tasks of the Server in FILE. The processes that serve it use the same store."
    )
    result.add_argument(
        "--tasks",
        type=option_sources.number(1),
        default=MAX_WORKER_TASKS,
        metavar="N",
        help=f"the number of tasks that run at the same time (default: {MAX_WORKER_TASKS})",
    )
    result.add_argument("--json", action="store_true", help="print the server name on stderr as JSON")
    return result


def main(command: str, arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    server = target.server_of(options)
    if server.lifecycle.store is None:
        raise DovetailError("a worker needs the store of its server: add --store redis://HOST:PORT/DB")
    check(server.lifecycle.store)
    line = f"dovetail: running the tasks of {server.name}, up to {options.tasks} at the same time"
    if options.json:
        line = msgspec.json.encode({"worker": server.name, "tasks": options.tasks}).decode()

    async def begin(stop: Stop) -> None:
        await work(server.dispatcher, options.tasks, stop, lambda: print_line(line))

    return run_process(begin, threads=server.limits.max_threads)
