"""What a call costs on a server with 1, 50 and 1,000 tools."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from ..peers import DOVETAIL, FASTMCP, LEGACY, SDK
from ..rounds import Options, interleave, say
from ..samples import Figures, Sample, figure
from ..workloads import ECHO
from .calls import opened

COUNTS = (6, 50, 1000)
"""The smallest server here has six tools, which stands for "one"."""


def measure(figures: Figures, options: Options) -> None:
    say(f"tools: {', '.join(map(str, COUNTS))}")
    with ExitStack() as stack:
        cases: dict[tuple[str, int], Callable[[], Sample]] = {}
        for peer in (DOVETAIL, SDK, FASTMCP):
            for count in COUNTS:
                driver = opened("stdio", peer, LEGACY, stack, BENCH_TOOLS=str(count))
                cases[peer.name, count] = lambda driver=driver: driver.throughput(
                    ECHO, 64, options.throughput, 128
                )
        found = interleave(cases, options.rounds + 2, figures.skipped)  # small differences need more rounds
    for (peer, count), samples in found.items():
        what = {"peer": peer, "workload": f"echo with {count} tools", "transport": "stdio", "era": LEGACY}
        cpu = [Sample(one.extra["cpu_us"], one.calls, one.seconds) for one in samples]
        figures.add(figure(cpu, measure="cpu", unit="µs of CPU per call", **what))
