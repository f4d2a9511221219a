"""What guards and sight cost over HTTP: the same server with rate limit, concurrency, metrics and health on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from ..peers import DOVETAIL, LEGACY, MODERN
from ..rounds import Options, interleave, say
from ..samples import Figures, Sample, figure
from ..sockets import SocketDriver
from ..workloads import ECHO
from .calls import opened

BARE, GUARDED = "echo, bare", "echo, guarded"
IN_FLIGHT = 64
MORE_ROUNDS = 2
"""A ratio near 1 needs more rounds than one of ten."""


def measure(figures: Figures, options: Options) -> None:
    say("http: with rate limit, concurrency, metrics and health, and without")
    with ExitStack() as stack:
        cases: dict[tuple[str, str], Callable[[], Sample]] = {}
        for era in (MODERN, LEGACY):
            for workload, environment in ((BARE, {}), (GUARDED, {"BENCH_GUARDS": "1"})):
                driver = opened("http", DOVETAIL, era, stack, **environment)
                assert isinstance(driver, SocketDriver)
                cases[workload, era] = lambda driver=driver: driver.throughput(
                    ECHO, IN_FLIGHT, options.throughput, least=IN_FLIGHT
                )
        found = interleave(cases, options.rounds + MORE_ROUNDS, figures.skipped)
    for (workload, era), samples in found.items():
        what = {"peer": DOVETAIL.name, "workload": workload, "transport": "http", "era": era}
        figures.add(figure(samples, measure="rate_64", unit="calls/s", **what))
        cpu = [Sample(one.extra["cpu_us"], one.calls, one.seconds) for one in samples]
        figures.add(figure(cpu, measure="cpu", unit="µs of CPU per call", **what))
