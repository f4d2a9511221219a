"""``python -m bench.soak``: mixed traffic on every transport; exit code 1 on an alarm, an error or a leak."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import threading
import time

from .. import peers
from ..peers import DOVETAIL
from ..processes import Child, descriptors, family, threads
from ..samples import quantile
from . import alarms
from .alarms import Window
from .traffic import Lane

MIB = 2**20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--window", type=float, default=5.0, metavar="SECONDS", help="length of a window")
    options = parser.parse_args()
    faults = asyncio.run(soak(options.minutes * 60, options.window))
    left = _left_behind()
    for fault in faults + left:
        print(f"FAULT  {fault}")
    print("clean" if not faults + left else f"{len(faults + left)} faults")
    return 1 if faults or left else 0


def _lanes(web: Child, tcp: Child) -> list[Lane]:
    pipe = peers.command(DOVETAIL, "stdio")
    address = f"127.0.0.1:{web.port}"
    return [
        Lane("stdio modern", pipe, "modern"),
        Lane("stdio legacy", pipe, "legacy"),
        Lane("tcp modern", f"tcp://127.0.0.1:{tcp.port}", "modern"),
        Lane("http modern", f"http://{address}/mcp", "modern"),
        Lane("http legacy", f"http://{address}/mcp", "legacy"),
        Lane("sse", f"http://{address}/sse", "2024-11-05"),
        Lane("ws modern", f"ws://{address}/mcp", "modern"),
    ]


async def soak(seconds: float, window: float) -> list[str]:
    """Run it; what went wrong."""
    with Child(DOVETAIL, "http") as web, Child(DOVETAIL, "tcp") as tcp:
        for child in (web, tcp):
            child.wait_for_port()
        servers = {"http": web, "tcp": tcp}
        before = {name: _held(child) for name, child in servers.items()}
        lanes = _lanes(web, tcp)
        seen, weights = await _drive(lanes, servers, seconds, window)
        faults = [error for lane in lanes for error in lane.errors]
        faults += _alarmed(lanes, seen, weights)
        faults += await _settled(servers, before)
        for child in servers.values():
            child.process.terminate()
        faults += [fault for name, child in servers.items() for fault in _ended(name, child)]
    return faults


async def _drive(
    lanes: list[Lane], servers: dict[str, Child], seconds: float, window: float
) -> tuple[dict[str, list[Window]], dict[str, list[tuple[float, float]]]]:
    begun = time.monotonic()
    until = begun + seconds
    seen: dict[str, list[Window]] = {lane.name: [] for lane in lanes}
    weights: dict[str, list[tuple[float, float]]] = {}
    work = asyncio.gather(*(lane.run(until) for lane in lanes))
    last = begun
    while time.monotonic() < until - window / 2:
        await asyncio.sleep(min(window, max(0.1, until - time.monotonic())))
        now = time.monotonic()
        held = {f"{name} server": child.memory() / MIB for name, child in servers.items()}
        held["clients"] = _own_memory()
        for name, weight in held.items():
            weights.setdefault(name, []).append(((now - begun) / 60, weight))
        line: list[str] = []
        for lane in lanes:
            deeds, latencies = lane.take()
            rate, tail = deeds / (now - last), quantile(latencies, 0.99) if latencies else 0.0
            seen[lane.name].append(Window((now - begun) / 60, rate, tail))
            line.append(f"{lane.name} {rate:.0f}/s")
        memory = ", ".join(f"{name} {weight:.1f}" for name, weight in held.items())
        print(f"{now - begun:5.0f} s  MiB: {memory};  " + "  ".join(line), flush=True)
        last = now
    await work
    return seen, weights


def _alarmed(
    lanes: list[Lane], seen: dict[str, list[Window]], weights: dict[str, list[tuple[float, float]]]
) -> list[str]:
    found = [slope for lane in lanes for slope in alarms.slopes(lane.name, seen[lane.name])]
    found += [alarms.growth(name, points) for name, points in weights.items()]
    for slope in found:
        print(slope)
    print("connections: " + ", ".join(f"{lane.name} {lane.visits}" for lane in lanes))
    return [str(slope) for slope in found if slope.alarm]


def _own_memory() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def _held(child: Child) -> dict[str, int]:
    return {
        "descriptors": descriptors(child.pid),
        "threads": threads(child.pid),
        "processes": len(family(child.pid)),
    }


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
