"""The memory of idle sessions and open streams over HTTP, and the cost of a call while there are thousands of them.

Filling a server is not measured, so two are filled at a time, one per core. The calls next to the sessions are
measured afterwards, in interleaved rounds with nothing else going on.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple, TypeVar

import msgspec

from .. import workloads
from ..peers import DOVETAIL, FASTMCP, LEGACY, MODERN, SDK, TYPESCRIPT, Peer
from ..processes import Child
from ..rounds import Options, interleave, say
from ..samples import Figures, Sample, figure
from ..sockets import SocketDriver
from ..workloads import ECHO, WrongReply

SETTLE = 0.3
SESSIONS = (SDK, TYPESCRIPT, DOVETAIL, FASTMCP)
"""The low-level server of the official SDK has the session code of the high-level one; MiniMCP and the limit have no
sessions."""
FEWER = {FASTMCP: 1000}
"""Its sessions are the official SDK's, and ten thousand take half a minute to open: one of the two is enough."""
STREAMS = (DOVETAIL, SDK, TYPESCRIPT)
"""The official SDK's low-level server and FastMCP serve no subscriptions, MiniMCP and the limit no open streams."""
WEIGHED = 1000
"""From here on sessions are weighed: one of them is lost in what a process takes anyway."""

Job = TypeVar("Job")
Done = TypeVar("Done")


class Full(NamedTuple):
    """A server with this number of sessions or streams."""

    driver: SocketDriver
    count: int
    weight: float
    """KiB of each."""
    seconds: float

    def sample(self) -> Sample:
        return Sample(self.weight, self.count, self.seconds)


def measure(figures: Figures, options: Options) -> None:
    _sessions(figures, options)
    _streams(figures, options)


def two_at_a_time(
    work: Callable[[Job], Done], jobs: Iterable[Job], skipped: list[str]
) -> list[tuple[Job, Done]]:
    """Do all jobs. One that fails is dropped, and why is noted."""

    def guarded(job: Job) -> Done | None:
        try:
            return work(job)
        except (WrongReply, OSError, RuntimeError) as error:
            skipped.append(f"{job}: {error}"[:400])
            return None

    jobs = list(jobs)
    with ThreadPoolExecutor(2) as pool:
        return [(job, done) for job, done in zip(jobs, pool.map(guarded, jobs), strict=True) if done]


# --- sessions ---------------------------------------------------------------------------------------------------------


def _sessions(figures: Figures, options: Options) -> None:
    """Fill a server for every peer and number, weigh the sessions, then time calls next to them."""
    levels = sorted(options.sessions, reverse=True)
    say(f"sessions: {', '.join(map(str, reversed(levels)))}")
    weights: dict[tuple[str, int], list[Sample]] = {}
    cases: dict[tuple[str, int], Callable[[], Sample]] = {}
    with ExitStack() as stack:
        # The largest first, so that the two workers end together; the first weight is taken in several rounds.
        jobs = [
            (peer.name, level) for level in levels for peer in SESSIONS if level <= FEWER.get(peer, level)
        ]
        full = two_at_a_time(lambda job: _filled(*job, stack), jobs, figures.skipped)
        more = [job for job in jobs if job[1] == WEIGHED] * (options.rounds - 1)
        full += two_at_a_time(lambda job: _filled(*job), more, figures.skipped)
        for job, one in full:
            weights.setdefault(job, []).append(one.sample())
            cases.setdefault(job, lambda driver=one.driver: driver.sequential(ECHO, options.sequential))
        say(f"sessions: calls beside them, {len(cases)} cases, {options.rounds} rounds")
        found = interleave(cases, options.rounds, figures.skipped)
    for (peer, level), samples in found.items():
        what = {"peer": peer, "transport": "http", "era": LEGACY, "workload": _beside(level)}
        figures.add(figure(samples, measure="latency_p50", unit="µs", **what))
        for name, measure, unit in (("p99", "latency_p99", "µs"), ("cpu_us", "cpu_1", "µs of CPU per call")):
            extra = [Sample(one.extra[name], one.calls, one.seconds) for one in samples]
            figures.add(figure(extra, measure=measure, unit=unit, **what))
        if level >= WEIGHED:
            what["workload"] = f"{level} idle sessions"
            figures.add(figure(weights[peer, level], measure="memory_session", unit="KiB each", **what))


def _beside(level: int) -> str:
    return f"echo beside {level} session{'s' if level > 1 else ''}"


def _filled(name: str, count: int, stack: ExitStack | None = None) -> Full:
    """A server with ``count`` sessions, which stays until ``stack`` ends, or ends at once."""
    with ExitStack() as own:
        child = own.enter_context(Child(_peer(name), "http"))
        driver = _warm(child, LEGACY)
        before, begun = child.memory(), time.perf_counter()
        with socket.create_connection(("127.0.0.1", child.port)) as connection:
            for _ in range(count - 1):
                if not driver.new_session(connection):
                    raise WrongReply(f"{name} gives no session id")
        took = time.perf_counter() - begun
        time.sleep(SETTLE)
        weight = (child.memory() - before) / max(1, count - 1) / 1024
        if stack is not None:
            stack.push(own.pop_all())
        return Full(driver, count, weight, took)


def _peer(name: str) -> Peer:
    return next(peer for peer in (*SESSIONS, *STREAMS) if peer.name == name)


def _warm(child: Child, era: str) -> SocketDriver:
    driver = SocketDriver(child, era)
    driver.open()
    driver.sequential(ECHO, 1.0, most=300)
    return driver


# --- streams ----------------------------------------------------------------------------------------------------------


def _streams(figures: Figures, options: Options) -> None:
    """Open listen streams and weigh them, on a fresh server in every round."""
    number = options.streams
    say(f"streams: {number}, {options.rounds} rounds")
    jobs = [peer.name for _ in range(options.rounds) for peer in STREAMS]
    weights: dict[str, list[Sample]] = {}
    for name, one in two_at_a_time(lambda name: _listened(name, number), jobs, figures.skipped):
        weights.setdefault(name, []).append(one.sample())
    for name, samples in weights.items():
        what = {"peer": name, "workload": f"{number} open listen streams", "transport": "http", "era": MODERN}
        figures.add(figure(samples, measure="memory_stream", unit="KiB each", **what))


def _listened(name: str, number: int) -> Full:
    with Child(_peer(name), "http") as child, ExitStack() as stack:
        driver = _warm(child, MODERN)
        before, begun = child.memory(), time.perf_counter()
        for id in range(number):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", child.port)))
            _listen(driver, connection, id)
        took = time.perf_counter() - begun
        time.sleep(SETTLE)
        return Full(driver, number, (child.memory() - before) / number / 1024, took)


def _listen(driver: SocketDriver, connection: socket.socket, id: int) -> None:
    """Open one stream; return when the server has acknowledged it."""
    params = {"_meta": workloads.modern_meta(), "notifications": {"toolsListChanged": True}}
    body = {"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}
    connection.settimeout(10)
    connection.sendall(driver.wrap(msgspec.json.encode(body), b"subscriptions/listen"))
    data = b""
    while b"acknowledged" not in data:
        chunk = connection.recv(1 << 16)
        data += chunk
        if not chunk or not b"HTTP/1.1 200".startswith(data[:12]):
            raise WrongReply(f"{driver.child.peer.name}: stream {id} was refused: {data[:300]!r}")
