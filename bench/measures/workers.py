"""Several processes on one port, and what the start of a task costs on SQLite."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from ..peers import DOVETAIL, MODERN
from ..rounds import Options, interleave, say
from ..samples import Figures, Sample, figure
from ..sockets import SocketDriver
from ..workloads import ECHO
from .calls import opened
from .programs import run

WORKERS = (1, 2, 4)
IN_FLIGHT = 64
TASKS = 500


def measure(figures: Figures, options: Options) -> None:
    say("workers: 1, 2 and 4 on one port")
    with ExitStack() as stack:
        cases: dict[int, Callable[[], Sample]] = {}
        for count in WORKERS:
            driver = opened("http", DOVETAIL, MODERN, stack, BENCH_WORKERS=str(count))
            assert isinstance(driver, SocketDriver)
            cases[count] = lambda driver=driver: driver.throughput(
                ECHO, IN_FLIGHT, options.throughput, least=IN_FLIGHT
            )
        found = interleave(cases, options.rounds, figures.skipped)
    for count, samples in found.items():
        what = {"peer": DOVETAIL.name, "workload": f"echo, {count} workers", "transport": "http"}
        figures.add(figure(samples, measure="rate_64", unit="calls/s", era=MODERN, **what))
    say("tasks: a start on SQLite")
    starts = interleave({"task": _start}, options.rounds, figures.skipped)["task"]
    what = {"peer": DOVETAIL.name, "workload": "task start, SQLite", "transport": "none"}
    figures.add(figure(starts, measure="handle", unit="µs of CPU per call", **what))


def _start() -> Sample:
    found = run(DOVETAIL, "dovetail_tasks.py", str(TASKS))
    return Sample(found["cpu_us"], int(found["calls"]), found["seconds"])
