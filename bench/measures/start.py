"""From starting the process to its first answer, and what it weighs then."""

from __future__ import annotations

from collections.abc import Callable

from ..peers import ALL, LEGACY, Peer
from ..pipes import PipeDriver
from ..processes import Child
from ..rounds import Options, interleave, say
from ..samples import Figures, Sample, figure
from ..workloads import ECHO


def measure(figures: Figures, options: Options) -> None:
    say(f"start: {options.starts} starts each")
    cases = {peer.name: _start(peer) for peer in ALL}
    for name, samples in interleave(cases, options.starts, figures.skipped).items():
        what = {"peer": name, "workload": "initialize", "transport": "stdio", "era": LEGACY}
        figures.add(figure(samples, measure="start", unit="ms", **what))
        weights = [Sample(one.extra["memory"] / 2**20, 1, one.seconds) for one in samples]
        figures.add(figure(weights, measure="memory", unit="MiB resident", **what | {"workload": "at rest"}))


def _start(peer: Peer) -> Callable[[], Sample]:
    def once() -> Sample:
        with Child(peer, "stdio") as child:
            driver = PipeDriver(child, LEGACY)
            took = driver.open()
            driver.sequential(ECHO, 1.0, most=10)  # what is made at the first call is part of the weight
            return Sample(took * 1000, 1, took, {"memory": float(child.memory())})

    return once
