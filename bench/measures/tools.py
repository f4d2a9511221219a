"""What a call costs on a server with exactly 1, 50 and 1,000 tools."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from ..peers import ALL, LEGACY
from ..pipes import PipeDriver
from ..rounds import Options, interleave, say
from ..samples import Figures, Sample, figure
from ..workloads import ECHO, WrongReply
from .calls import opened

COUNTS = (1, 50, 1000)
MORE_ROUNDS = 2
"""Small differences need more rounds."""


def measure(figures: Figures, options: Options) -> None:
    say(f"tools: {', '.join(map(str, COUNTS))}")
    with ExitStack() as stack:
        cases: dict[tuple[str, int], Callable[[], Sample]] = {}
        for peer in ALL:
            for count in COUNTS:
                driver = opened("stdio", peer, LEGACY, stack, BENCH_TOOLS=str(count))
                assert isinstance(driver, PipeDriver)
                counted(driver, count)
                cases[peer.name, count] = lambda driver=driver: driver.throughput(
                    ECHO, 64, options.sequential, 128
                )
        found = interleave(cases, options.rounds + MORE_ROUNDS, figures.skipped)
    for (peer, count), samples in found.items():
        tools = "1 tool" if count == 1 else f"{count} tools"
        what = {"peer": peer, "workload": f"echo with {tools}", "transport": "stdio", "era": LEGACY}
        cpu = [Sample(one.extra["cpu_us"], one.calls, one.seconds) for one in samples]
        figures.add(figure(cpu, measure="cpu", unit="µs of CPU per call", **what))
        figures.add(figure(samples, measure="rate_64", unit="calls/s", **what))


def counted(driver: PipeDriver, count: int) -> None:
    """The server must have exactly ``count`` tools, or the figure would bear a wrong name."""
    found = 0
    cursor: dict[str, str] = {}
    while True:
        page = driver.request("tools/list", dict(cursor))
        found += len(page["tools"])
        if not page.get("nextCursor"):
            break
        cursor = {"cursor": page["nextCursor"]}
    if found != count:
        raise WrongReply(f"{driver.child.peer.name} lists {found} tools instead of {count}")
