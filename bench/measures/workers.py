"""Several processes on one port, and what the start of a task costs on SQLite."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from ..peers import DOVETAIL, MODERN
from ..processes import family, processor_seconds
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
    rates(figures, options)
    say("tasks: a start on SQLite")
    starts = interleave({"task": _start}, options.rounds, figures.skipped)["task"]
    what = {"peer": DOVETAIL.name, "workload": "task start, SQLite", "transport": "none"}
    figures.add(figure(starts, measure="task_start", unit="µs of CPU per call", **what))


def rates(figures: Figures, options: Options) -> dict[int, list[Sample]]:
    say("workers: 1, 2 and 4 on one port")
    with ExitStack() as stack:
        cases: dict[int, Callable[[], Sample]] = {}
        for count in WORKERS:
            driver = opened("http", DOVETAIL, MODERN, stack, BENCH_WORKERS=str(count))
            assert isinstance(driver, SocketDriver)
            cases[count] = lambda driver=driver: _rate(driver, options.throughput)
        found = interleave(cases, options.rounds, figures.skipped)
    for count, samples in found.items():
        what = {
            "peer": DOVETAIL.name,
            "workload": f"echo, {count} workers",
            "transport": "http",
            "era": MODERN,
        }
        figures.add(figure(samples, measure="rate_64", unit="calls/s", **what))
        for name in ("cpu", "cpu_driver"):
            extra = [Sample(one.extra[name], one.calls, one.seconds) for one in samples]
            figures.add(figure(extra, measure=name, unit="µs of CPU per call", **what))
    return found


def _rate(driver: SocketDriver, seconds: float) -> Sample:
    """Calls per second, and the processor time of each in the workers and in the driver."""
    before, own = _used(driver), time.process_time()
    sample = driver.throughput(ECHO, IN_FLIGHT, seconds, least=IN_FLIGHT)
    costs = {"cpu": _used(driver) - before, "cpu_driver": time.process_time() - own}
    sample.extra |= {name: value / sample.calls * 1e6 for name, value in costs.items()}
    return sample


def _used(driver: SocketDriver) -> float:
    return sum(map(processor_seconds, family(driver.child.pid)))


def _start() -> Sample:
    found = run(DOVETAIL, "dovetail_tasks.py", str(TASKS))
    return Sample(found["cpu_us"], int(found["calls"]), found["seconds"])
