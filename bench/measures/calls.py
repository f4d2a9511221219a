"""Latency, throughput and processor time of calls, over stdio, HTTP and TCP."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from .. import workloads
from ..peers import (
    DOVETAIL,
    FASTMCP,
    LEGACY,
    LIMIT,
    MINIMCP,
    MODERN,
    SDK,
    SDK_LOW,
    TCP,
    TYPESCRIPT,
    Peer,
)
from ..pipes import PipeDriver
from ..processes import Child
from ..rounds import Options, interleave, say, side_by_side
from ..samples import Figure, Figures, Sample, figure
from ..sockets import SocketDriver
from ..workloads import ECHO, EVERYDAY, Workload

Driver = PipeDriver | SocketDriver
WARM = 0.1
"""Seconds at most for the first calls of a workload: what is made once is made, and what runs often is specialized."""

STDIO = (
    (LIMIT, LEGACY),
    (LIMIT, MODERN),
    (DOVETAIL, LEGACY),
    (DOVETAIL, MODERN),
    (SDK, LEGACY),
    (SDK_LOW, LEGACY),
    (FASTMCP, LEGACY),
    (MINIMCP, LEGACY),
    (TYPESCRIPT, LEGACY),
)
HTTP = (
    (LIMIT, MODERN),
    (LIMIT, LEGACY),
    (DOVETAIL, MODERN),
    (DOVETAIL, LEGACY),
    (SDK, MODERN),
    (SDK, LEGACY),
    (SDK_LOW, MODERN),
    (SDK_LOW, LEGACY),
    (FASTMCP, MODERN),
    (FASTMCP, LEGACY),
    (MINIMCP, LEGACY),
    (TYPESCRIPT, MODERN),
    (TYPESCRIPT, LEGACY),
)
PAIRS = {"stdio": STDIO, "http": HTTP, "tcp": tuple((peer, MODERN) for peer in TCP)}
JUDGED = (LIMIT, DOVETAIL)
SHARES = {
    "stdio": ((DOVETAIL, LIMIT, LEGACY, ECHO),),
    "http": (
        (DOVETAIL, LIMIT, MODERN, ECHO),
        (DOVETAIL, LIMIT, LEGACY, ECHO),
    ),
    "tcp": (),
}
"""The rates of which a share of the limit was promised."""


class Key(NamedTuple):
    peer: str
    era: str
    workload: str
    how: str


def measure(transport: str, figures: Figures, options: Options) -> None:
    """All of it for one transport."""
    with ExitStack() as stack:
        drivers = _start(transport, stack, figures)
        cases = _echo(drivers, options) | _everyday(transport, drivers, stack, figures, options)
        say(f"{transport}: {len(cases)} cases, {options.rounds} rounds")
        found = interleave(cases, options.rounds, figures.skipped)
        _shares(transport, drivers, options, figures)
    for key, samples in found.items():
        _add(transport, key, samples, figures)


def _shares(
    transport: str, drivers: dict[tuple[Peer, str], Driver], options: Options, figures: Figures
) -> None:
    """Our share of the limit where one was promised, measured side by side."""
    for ours, limit, era, workload in SHARES[transport]:
        if not {(ours, era), (limit, era)} <= drivers.keys():
            continue
        say(f"{transport}: {options.pairs} × {ours.name} beside {limit.name}, {workload.name}, {era}")
        one, other = (_throughput(drivers[peer, era], workload, 64, options.judged) for peer in (ours, limit))
        what = {"peer": ours.name, "workload": workload.name, "transport": transport, "era": era}
        try:
            shares = side_by_side(one, other, options.pairs)
        except (workloads.WrongReply, OSError, RuntimeError) as error:
            figures.skipped.append(f"{transport} {ours.name} beside {limit.name}: {error}"[:400])
            continue
        figures.add(figure(shares, measure="share_64", unit="of the limit's rate", **what))


def _start(transport: str, stack: ExitStack, figures: Figures) -> dict[tuple[Peer, str], Driver]:
    drivers: dict[tuple[Peer, str], Driver] = {}
    for peer, era in PAIRS[transport]:
        try:
            drivers[peer, era] = opened(transport, peer, era, stack)
        except (workloads.WrongReply, OSError, RuntimeError) as error:
            figures.skipped.append(f"{transport} {peer.name} {era}: {error}"[:400])
    return drivers


def opened(transport: str, peer: Peer, era: str, stack: ExitStack, **environment: str) -> Driver:
    """A started, greeted and warmed server."""
    child = stack.enter_context(Child(peer, transport, **environment))
    driver: Driver = PipeDriver(child, era) if transport == "stdio" else SocketDriver(child, era, transport)
    driver.open()
    driver.sequential(ECHO, 0.3, most=200)
    return driver


def _echo(drivers: dict[tuple[Peer, str], Driver], options: Options) -> dict[Key, Callable[[], Sample]]:
    cases: dict[Key, Callable[[], Sample]] = {}
    for (peer, era), driver in drivers.items():
        cases[Key(peer.name, era, "echo", "sequential")] = _sequential(driver, ECHO, options.sequential)
        for in_flight in options.in_flight:
            case = _throughput(driver, ECHO, in_flight, _seconds(peer, options.throughput, options))
            cases[Key(peer.name, era, "echo", f"rate_{in_flight}")] = case
    return cases


def _everyday(
    transport: str,
    drivers: dict[tuple[Peer, str], Driver],
    stack: ExitStack,
    figures: Figures,
    options: Options,
) -> dict[Key, Callable[[], Sample]]:
    cases: dict[Key, Callable[[], Sample]] = {}
    for (peer, era), driver in drivers.items():
        for workload in EVERYDAY:
            if workload.name not in options.workloads or (transport == "tcp" and workload.more):
                continue
            speaker = _speaker(transport, peer, era, driver, workload, stack, figures)
            if speaker is None:
                continue
            try:
                speaker.sequential(workload, WARM, most=200)
            except (workloads.WrongReply, OSError) as error:
                figures.skipped.append(f"{transport} {peer.name} {era} {workload.name}: {error}"[:400])
                continue
            key = Key(peer.name, era, workload.name, "sequential")
            cases[key] = _sequential(speaker, workload, options.workload)
            seconds = _seconds(peer, options.workload, options) if workload.asks else options.workload
            cases[key._replace(how="rate_64")] = _throughput(speaker, workload, 64, seconds)
    return cases


def _speaker(
    transport: str,
    peer: Peer,
    era: str,
    driver: Driver,
    workload: Workload,
    stack: ExitStack,
    figures: Figures,
) -> Driver | None:
    """Return the server for ``workload``: the running one, a separate one, or None."""
    if workload.asks and not peer.asks:
        return None
    environment = {}
    if workload.tools:
        environment["BENCH_TOOLS"] = str(workload.tools)
    if workload.tells and transport == "http" and peer is MINIMCP:
        environment["BENCH_STREAMING"] = "1"
    if not environment:
        return driver
    try:
        return opened(transport, peer, era, stack, **environment)
    except (workloads.WrongReply, OSError, RuntimeError) as error:
        figures.skipped.append(f"{transport} {peer.name} {era} {workload.name}: {error}"[:400])
        return None


def _seconds(peer: Peer, usual: float, options: Options) -> float:
    return max(usual, options.judged) if peer in JUDGED else usual


def _sequential(driver: Driver, workload: Workload, seconds: float) -> Callable[[], Sample]:
    return lambda: driver.sequential(workload, seconds)


def _throughput(driver: Driver, workload: Workload, in_flight: int, seconds: float) -> Callable[[], Sample]:
    return lambda: driver.throughput(workload, in_flight, seconds, least=in_flight)


def _add(transport: str, key: Key, samples: list[Sample], figures: Figures) -> None:
    if not samples:
        return
    what = {"peer": key.peer, "workload": key.workload, "transport": transport, "era": key.era}
    if key.how == "sequential":
        figures.add(figure(samples, measure="latency_p50", unit="µs", **what))
        figures.add(_extra(samples, "p99", measure="latency_p99", unit="µs", **what))
        figures.add(_extra(samples, "rate", measure="rate_1", unit="calls/s", **what))
        figures.add(_extra(samples, "cpu_us", measure="cpu_1", unit="µs of CPU per call", **what))
        return
    figures.add(figure(samples, measure=key.how, unit="calls/s", **what))
    if key.how == "rate_64":
        figures.add(_extra(samples, "cpu_us", measure="cpu", unit="µs of CPU per call", **what))


def _extra(samples: list[Sample], name: str, **what: str) -> Figure:
    return figure([Sample(one.extra[name], one.calls, one.seconds) for one in samples], **what)
