"""``python -m bench.soak``: mixed traffic on every transport; exit code 1 unless it ends clean.

The traffic runs for ``--warm-up`` minutes in which nothing is judged (caches fill, pools and the allocator find their
size), then for ``--minutes`` that are. Clean means: no wrong answer, no slope that is an alarm or may be one (see
`alarms`), and no task, thread, descriptor or process left. Memory is judged for each process and for all together.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import threading
import time
from typing import NamedTuple

from .. import peers
from ..peers import DOVETAIL
from ..processes import Child, descriptors, family, threads
from . import alarms
from .alarms import Points, Window
from .traffic import Lane
from .weights import MIB, STAYS, Load, weigh


class Plan(NamedTuple):
    """How long, in seconds; and how many MiB per minute to leak on purpose."""

    warm_up: float
    measured: float
    window: float
    leak: float


class Seen:
    """The measurements after the warm-up."""

    def __init__(self, lanes: list[Lane]) -> None:
        self.traffic: dict[str, list[Window]] = {lane.name: [] for lane in lanes}
        self.weights: dict[str, Points] = {}

    def add(self, minute: float, figures: dict[str, tuple[float, float]], weights: dict[str, float]) -> None:
        for name, (rate, p99) in figures.items():
            self.traffic[name].append(Window(minute, rate, p99))
        for name, weight in weights.items():
            self.weights.setdefault(name, []).append((minute, weight))

    def slopes(self) -> list[alarms.Slope]:
        found = [slope for name, windows in self.traffic.items() for slope in alarms.slopes(name, windows)]
        found += [alarms.growth(name, points) for name, points in self.weights.items()]
        return [*found, alarms.growth("all processes together", alarms.together(self.weights))]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to measure (10)")
    parser.add_argument("--warm-up", type=float, default=2.0, metavar="MINUTES", help="before that (2)")
    parser.add_argument(
        "--window", type=float, default=10.0, metavar="SECONDS", help="length of a window (10)"
    )
    parser.add_argument(
        "--leak",
        type=float,
        default=0.0,
        metavar="MIB",
        help="leak so much per minute, to see the alarm ring",
    )
    options = parser.parse_args()
    plan = Plan(options.warm_up * 60, options.minutes * 60, options.window, options.leak)
    faults = asyncio.run(soak(plan)) + _left_behind()
    for fault in faults:
        print(f"FAULT  {fault}")
    print("clean" if not faults else f"{len(faults)} faults")
    return 1 if faults else 0


def _lanes(web: Child, tcp: Child) -> list[Lane]:
    pipe = peers.command(DOVETAIL, "stdio")
    address = f"127.0.0.1:{web.port}"
    return [
        Lane("stdio modern", pipe, "modern", stayer=[*pipe, f"{STAYS}stdio modern"]),
        Lane("stdio legacy", pipe, "legacy", stayer=[*pipe, f"{STAYS}stdio legacy"]),
        Lane("tcp modern", f"tcp://127.0.0.1:{tcp.port}", "modern"),
        Lane("http modern", f"http://{address}/mcp", "modern"),
        Lane("http legacy", f"http://{address}/mcp", "legacy"),
        Lane("sse", f"http://{address}/sse", "2024-11-05"),
        Lane("ws modern", f"ws://{address}/mcp", "modern"),
    ]


async def soak(plan: Plan) -> list[str]:
    """Run it; what went wrong."""
    with Child(DOVETAIL, "http") as web, Child(DOVETAIL, "tcp") as tcp:
        for child in (web, tcp):
            child.wait_for_port()
        servers, lanes = {"http": web, "tcp": tcp}, _lanes(web, tcp)
        before = await _before(lanes, servers)
        load, begun = Load(servers), time.monotonic()
        seen = await _drive(lanes, servers, plan)
        ours, others = load.cores(time.monotonic() - begun)
        print(
            f"{sum(lane.deeds for lane in lanes)} deeds on {sum(lane.visits for lane in lanes)} connections"
        )
        print(f"cores in use: {ours:.2f} by this, {others:.2f} by others")
        faults = [error for lane in lanes for error in lane.errors]
        faults += _judged(seen)
        faults += await _settled(servers, before)
        for child in servers.values():
            child.process.terminate()
        faults += [fault for name, child in servers.items() for fault in _ended(name, child)]
    return faults


async def _drive(lanes: list[Lane], servers: dict[str, Child], plan: Plan) -> Seen:
    begun = time.monotonic()
    until = begun + plan.warm_up + plan.measured
    seen = Seen(lanes)
    work = asyncio.gather(*(lane.run(until) for lane in lanes))
    leak = asyncio.create_task(_leak(plan.leak))
    number = 1
    # The last window ends before the clients disconnect.
    while (end := begun + number * plan.window) < until:
        await asyncio.sleep(end - time.monotonic())
        figures, weights = {lane.name: lane.take() for lane in lanes}, weigh(servers)
        passed = time.monotonic() - begun
        measured = passed - plan.warm_up >= plan.window
        if measured:
            seen.add(passed / 60, figures, weights)
        print(_line(passed, figures, weights, "" if measured else "warm-up "), flush=True)
        number += 1
    await work
    leak.cancel()
    return seen


def _line(
    passed: float, figures: dict[str, tuple[float, float]], weights: dict[str, float], mark: str
) -> str:
    memory = ", ".join(f"{name} {weight:.1f}" for name, weight in weights.items())
    traffic = ", ".join(f"{name} {rate:.0f}/s {p99 * 1000:.1f} ms" for name, (rate, p99) in figures.items())
    return f"{passed:5.0f} s {mark} MiB: {memory}; all {sum(weights.values()):.1f};  {traffic}"


async def _leak(per_minute: float) -> None:
    """Lose memory on purpose, so that anyone can see the alarm ring."""
    lost: list[bytes] = []
    while per_minute:
        await asyncio.sleep(1)
        lost.append(b"x" * int(per_minute * MIB / 60))


def _judged(seen: Seen) -> list[str]:
    found = seen.slopes()
    for slope in found:
        print(slope)
    return [str(slope) for slope in found if slope.verdict != "ok"]


def _held(child: Child) -> dict[str, int]:
    return {
        "descriptors": descriptors(child.pid),
        "threads": threads(child.pid),
        "processes": len(family(child.pid)),
    }


async def _before(lanes: list[Lane], servers: dict[str, Child]) -> dict[str, dict[str, int]]:
    """The memory of the servers without clients, after one client of each kind has disconnected."""
    for lane in lanes:
        await lane.visit()
    await asyncio.sleep(2)
    return {name: _held(child) for name, child in servers.items()}


async def _settled(servers: dict[str, Child], before: dict[str, dict[str, int]]) -> list[str]:
    """After the last client has left, the servers must hold what they held before the first one came."""
    faults: list[str] = []
    for name, child in servers.items():
        held = _held(child)
        for _ in range(100):  # what is ending may end
            if held == before[name]:
                break
            await asyncio.sleep(0.1)
            held = _held(child)
        faults += [
            f"{name} server: {held[what]} {what}, {count} before"
            for what, count in before[name].items()
            if held[what] > count
        ]
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    faults += [f"a task is left: {task!r}"[:200] for task in tasks]
    return faults


def _ended(name: str, child: Child) -> list[str]:
    try:
        status = child.process.wait(15)
    except Exception:
        return [f"{name} server: still there 15 s after SIGTERM"]
    return [] if status == 0 else [f"{name} server: exit status {status}"]


def _left_behind() -> list[str]:
    """What this process, which ran all the clients, still holds."""
    gc.collect()
    faults: list[str] = []
    others = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if others:
        faults.append(f"threads are left: {', '.join(others)}")
    children = family(os.getpid())[1:]
    if children:
        faults.append(f"children are left: {children}")
    held = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)]
    extra = [what for what in held if what.startswith(("socket:", "anon_inode:"))]
    if extra:
        faults.append(f"descriptors are left: {extra}")
    return faults


def _is_open(fd: str) -> bool:
    try:
        os.stat(f"/proc/self/fd/{fd}")
        return True
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
