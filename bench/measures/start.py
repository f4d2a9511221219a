"""From starting the process to its first answer, and what it weighs then: with six tools, and with as many as large
servers have."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable

from .. import workloads
from ..peers import ALL, DOVETAIL, LEGACY, SDK, Peer
from ..pipes import PipeDriver
from ..processes import Child
from ..rounds import Options, interleave, say
from ..samples import Figures, Sample, figure
from ..workloads import ECHO, WrongReply

TOOLS = 105
MIXED = TOOLS - 6
"""Tools of mixed signatures next to the six that every server has."""
MANY = f"with {TOOLS} tools"
LATE = 60.0
"""Seconds after which a server that does not answer is given up."""


def measure(figures: Figures, options: Options) -> None:
    say(f"start: {options.starts} starts each")
    cases = {(peer.name, "stdio", ""): _piped(installed_alone(peer)) for peer in ALL}
    cases |= {(peer.name, "http", ""): _posted(installed_alone(peer)) for peer in ALL}
    for peer in (DOVETAIL, SDK):
        cases[peer.name, "stdio", f" {MANY}"] = _piped(installed_alone(peer), BENCH_MIXED=str(MIXED))
        cases[peer.name, "http", f" {MANY}"] = _posted(installed_alone(peer), BENCH_MIXED=str(MIXED))
    for (name, transport, many), samples in interleave(cases, options.starts, figures.skipped).items():
        what = {"peer": name, "transport": transport, "era": LEGACY}
        figures.add(figure(samples, measure="start", unit="ms", workload=f"initialize{many}", **what))
        weights = [Sample(one.extra["memory"] / 2**20, 1, one.seconds) for one in samples]
        figures.add(figure(weights, measure="memory", unit="MiB resident", workload=f"at rest{many}", **what))


def installed_alone(peer: Peer) -> Peer:
    """The peer in an environment that has its own packages and no others, as after its installation."""
    return peer if peer.environment else peer._replace(environment="dovetail")


def _piped(peer: Peer, **environment: str) -> Callable[[], Sample]:
    def once() -> Sample:
        with Child(peer, "stdio", **environment) as child:
            driver = PipeDriver(child, LEGACY)
            took = driver.open()
            driver.sequential(ECHO, 1.0, most=10)  # what is made at the first call is part of the weight
            return Sample(took * 1000, 1, took, {"memory": float(child.memory())})

    return once


def _posted(peer: Peer, **environment: str) -> Callable[[], Sample]:
    def once() -> Sample:
        with Child(peer, "http", **environment) as child:
            answer = _first_answer(child)
            took = time.perf_counter() - child.started
            if b'"result"' not in answer:
                raise WrongReply(f"{peer.name} refused the handshake: {answer[:300]!r}")
            return Sample(took * 1000, 1, took, {"memory": float(child.memory())})

    return once


def _first_answer(child: Child) -> bytes:
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    while time.perf_counter() - child.started < LATE:
        connection = http.client.HTTPConnection("127.0.0.1", child.port, timeout=LATE)
        try:
            connection.request("POST", "/mcp", workloads.initialize(), headers)
            return connection.getresponse().read()
        except ConnectionRefusedError:
            time.sleep(0.002)
        finally:
            connection.close()
    raise WrongReply(f"{child.peer.name} did not listen within {LATE:.0f} s")
