"""What one hop through a gateway adds to a call over HTTP on loopback: Dovetail, FastMCP, and a bare relay."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from ..peers import DOVETAIL, FASTMCP, LEGACY, LIMIT, MODERN, Peer
from ..processes import Child
from ..rounds import Options, interleave, say
from ..samples import Figures, Sample, figure
from ..sockets import SocketDriver
from ..workloads import ECHO, WrongReply

DIRECT, HOP = "echo, direct", "echo, one hop"
BOTH: Final = (MODERN, LEGACY)
WAYS: Final[tuple[tuple[Peer, tuple[str, ...]], ...]] = (
    (LIMIT, (MODERN,)),
    (DOVETAIL, BOTH),
    (FASTMCP, (LEGACY,)),
)
"""The downstream and upstream sides, and the eras of the clients."""


def measure(figures: Figures, options: Options) -> None:
    say("http: one hop through a gateway, and none")
    with ExitStack() as stack:
        cases: dict[tuple[str, str, str], Callable[[], Sample]] = {}
        for peer, eras in WAYS:
            behind = stack.enter_context(Child(peer, "http"))
            behind.wait_for_port()
            front = stack.enter_context(
                Child(peer, "http", BENCH_BEHIND=f"http://127.0.0.1:{behind.port}/mcp")
            )
            ways = [(era, *way) for era in eras for way in ((DIRECT, behind), (HOP, front))]
            for era, workload, child in ways:
                try:
                    driver = SocketDriver(child, era, "http")
                    driver.open()
                    driver.sequential(ECHO, 0.3, most=200)
                except (WrongReply, OSError, RuntimeError) as error:
                    figures.skipped.append(f"hops {peer.name} {era} {workload}: {error}"[:400])
                    continue
                cases[peer.name, era, workload] = lambda driver=driver: driver.sequential(
                    ECHO, options.sequential
                )
        found = interleave(cases, options.rounds, figures.skipped)
    for (peer, era, workload), samples in found.items():
        what = {"peer": peer, "workload": workload, "transport": "http", "era": era}
        figures.add(figure(samples, measure="latency_p50", unit="µs", **what))
