"""Those workloads of erlmcp's benchmark that make sense here, under their names, with the replies read and checked."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from ..peers import ALL, DOVETAIL, LEGACY, LIMIT, MODERN, TCP, Peer
from ..pipes import PipeDriver
from ..processes import Child
from ..rounds import Options, interleave, say
from ..samples import Figures, Sample, figure
from ..sockets import SocketDriver
from ..workloads import KIB, WrongReply
from .calls import opened

CONNECTIONS, BURSTS = 100, 10
WORKFLOW = 7
"""Requests of one workflow."""


def measure(figures: Figures, options: Options) -> None:
    say("erlmcp's workloads")
    with ExitStack() as stack:
        cases: dict[tuple[str, str, str, str], Callable[[], Sample]] = {}
        for peer in ALL:
            pipes = opened("stdio", peer, LEGACY, stack)
            assert isinstance(pipes, PipeDriver)
            cases["stdio_sequential_1k", peer.name, "stdio", LEGACY] = _thousand(pipes)
            cases["mcp_complete_workflow", peer.name, "stdio", LEGACY] = _workflow(peer)
            for era in _eras(peer):
                web = opened("http", peer, era, stack)
                assert isinstance(web, SocketDriver)
                cases["http_burst_100_1kib", peer.name, "http", era] = _burst(web)
        for peer in TCP:
            tcp = opened("tcp", peer, MODERN, stack)
            assert isinstance(tcp, SocketDriver)
            cases["tcp_burst_100_1kib", peer.name, "tcp", MODERN] = _burst(tcp)
        found = interleave(cases, options.rounds, figures.skipped)
    for (workload, peer, transport, era), samples in found.items():
        what = {"peer": peer, "workload": workload, "transport": transport, "era": era}
        unit = "ms per workflow" if workload == "mcp_complete_workflow" else "messages/s"
        figures.add(figure(samples, measure="erlmcp", unit=unit, **what))


def _eras(peer: Peer) -> tuple[str, ...]:
    """The newest revision of each; both for Dovetail and the limit, so that older peers can be compared."""
    if not peer.modern:
        return (LEGACY,)
    return (MODERN, LEGACY) if peer in (LIMIT, DOVETAIL) else (MODERN,)


def _thousand(driver: PipeDriver) -> Callable[[], Sample]:
    def once() -> Sample:
        sample = driver.sequential(KIB, 30.0, most=1000)
        return Sample(sample.calls / sample.seconds, sample.calls, sample.seconds, sample.extra)

    return once


def _burst(driver: SocketDriver) -> Callable[[], Sample]:
    return lambda: driver.burst(KIB, CONNECTIONS, BURSTS)


def _workflow(peer: Peer) -> Callable[[], Sample]:
    """After initialize: list and use tools, resources and prompts, ping, and end. A process each time."""

    def once() -> Sample:
        with Child(peer, "stdio") as child:
            driver = PipeDriver(child, LEGACY)
            driver.open()
            begun = time.perf_counter()
            ask = driver.request
            tools = [tool["name"] for tool in ask("tools/list", {})["tools"]]
            said = ask("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})
            resources = ask("resources/list", {})["resources"]
            contents = ask("resources/read", {"uri": "bench://text"})["contents"]
            prompts = ask("prompts/list", {})["prompts"]
            messages = ask("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}})["messages"]
            ask("ping", {})
            took = time.perf_counter() - begun
            right = (
                "add" in tools
                and said["structuredContent"] == {"sum": 5}
                and resources[0]["uri"] == "bench://text"
                and contents[0]["text"] == "some text"
                and prompts[0]["name"] == "greet"
                and messages[0]["content"]["text"] == "Say hello to Ada."
            )
            if not right:
                raise WrongReply(f"{peer.name}: the workflow went wrong")
            return Sample(took * 1000, WORKFLOW, took)

    return once
