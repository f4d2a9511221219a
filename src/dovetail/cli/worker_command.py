"""``dovetail worker FILE[:name]``: run the tasks of a server whose calls arrive elsewhere."""

from __future__ import annotations

import argparse

import msgspec

from ..cluster.task_worker import work
from ..errors import DovetailError
from ..stores.store_limits import MAX_WORKER_TASKS
from ..stores.store_urls import check
from ..transports.bind_address import print_line
from ..transports.main_loop import Stop
from ..transports.main_loop import run as run_process
from . import option_sources, target


def parser() -> argparse.ArgumentParser:
    result = target.server_parser(
        "worker", "Run the tasks of the Server in FILE. The processes that serve it have the same store."
    )
    result.add_argument(
        "--tasks",
        type=option_sources.number(1),
        default=MAX_WORKER_TASKS,
        metavar="N",
        help=f"at once (default: {MAX_WORKER_TASKS})",
    )
    result.add_argument("--json", action="store_true", help="say what it works for as JSON, on stderr")
    return result


def main(command: str, arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    server = target.server_of(options)
    if server.store is None:
        raise DovetailError("a worker needs the store of its server: --store redis://HOST:PORT/DB")
    check(server.store)
    told = {"worker": server.name, "tasks": options.tasks}
    said = f"dovetail: running the tasks of {server.name}, {options.tasks} at once"

    async def begin(stop: Stop) -> None:
        # Whoever reads it may stop us at once: by now signals are heard.
        print_line(msgspec.json.encode(told).decode() if options.json else said)
        await work(server, options.tasks, stop)

    return run_process(begin, threads=server.limits.max_threads)
