"""All floods together, and what a quiet client feels of them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from statistics import median
from typing import NamedTuple

from .on_places import (
    a_batch_that_answers_much,
    bodies_that_never_end,
    calls_nobody_waits_for,
    clients_that_read_nothing,
)
from .quiet import prefer
from .report import GotThrough, Scale, attack
from .victim import Victim

FLOODS = (clients_that_read_nothing, bodies_that_never_end, a_batch_that_answers_much, calls_nobody_waits_for)
Flood = Callable[[Victim, Scale], Awaitable[str]]
ROUNDS = 3
"""Times without and with floods, in turn: the median of all is less than one moment of the machine."""
ATTEMPTS = 7
STOLEN = 0.01
"""How many rounds there are at most, and the share of their time for which the machine may have been somebody else's:
on a virtual one the cores are taken away at times, and what a client feels of that is not the server."""
MOST = 512
"""Mebibytes of the whole process."""
FIRST = -20
"""How nice those who flood are to others on their core."""
SLOWER = 2.0
SHORTLY = 100.0
"""How many times its quiet value the 99th percentile may become. In the short form whatever else runs on the machine is
in it, so there the median is judged, and so many milliseconds are enough."""


class Round(NamedTuple):
    """What was felt without and with floods; the least stolen come first."""

    stolen: float
    quiet: float
    loud: float
    usual: float
    highest: int


@attack("http", seconds=300)
async def all_floods_together(victim: Victim, scale: Scale) -> str:
    """Every flood at once and again and again, while a quiet client of its own process goes on calling."""
    rounds, wanted = list[Round](), scale.of(1, ROUNDS)
    with apart(victim.process.pid) as cores:
        await feel(victim, scale.of(0.2, 1.0))  # what is made once is made
        while len(rounds) < scale.of(1, ATTEMPTS) and sum(one.stolen <= STOLEN for one in rounds) < wanted:
            rounds.append(await _round(victim, scale))
    highest, judged = max(one.highest for one in rounds), sorted(rounds)[:wanted]
    before, after = median(one.quiet for one in judged), median(one.loud for one in judged)
    times = ", ".join(f"{one.quiet:.1f} → {one.loud:.1f}, stolen {one.stolen:.1%}" for one in rounds)
    detail = f"p99 of a quiet client {before:.1f} → {after:.1f} ms (rounds: {times}), {highest} MiB in all; {cores}"
    slow = median(one.usual for one in judged) > SHORTLY if scale.short else after > SLOWER * before
    if highest > MOST or slow:
        raise GotThrough(detail)
    return detail


async def _round(victim: Victim, scale: Scale) -> Round:
    begun, before = time.monotonic(), _stolen()
    quiet = await feel(victim, scale.of(0.3, 5.0))
    async with _flooded(victim, scale) as weighed:
        loud = await feel(victim, scale.of(1.0, 10.0))
    stolen = (_stolen() - before) / (time.monotonic() - begun)
    return Round(stolen, percentile(quiet), percentile(loud), median(loud), max(weighed))


def _stolen() -> float:
    """Seconds that the machine below has given to others though a core of ours had work; proc(5): "steal"."""
    if not os.path.exists("/proc/stat"):
        return 0.0
    with open("/proc/stat") as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def _flooded(victim: Victim, scale: Scale) -> AsyncIterator[list[int]]:
    """As long as this is open every flood goes on; the mebibytes that the server had meanwhile."""
    weighed = [victim.memory() >> 20]

    async def weigh() -> None:
        while True:
            weighed.append(victim.memory() >> 20)
            await asyncio.sleep(0.02)

    tasks = [
        asyncio.create_task(weigh()),
        *(asyncio.create_task(_again(one, victim, scale)) for one in FLOODS),
    ]
    try:
        yield weighed
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


async def _again(flood: Flood, victim: Victim, scale: Scale) -> None:
    """One flood after the other, with connections of its own; each is judged elsewhere."""
    while True:
        mine = Victim(victim.process, victim.address, victim.host)
        try:
            with suppress(GotThrough, OSError, TimeoutError, asyncio.IncompleteReadError):
                await flood(mine, scale)
        finally:
            for wire in mine.wires:
                wire.drop()


@contextmanager
def apart(server: int) -> Iterator[str]:
    """The server has a core of its own; whoever floods it and whoever measures it share the other one.

    There the quiet client comes first, then the floods, then whatever else runs on this machine: neither takes time
    from the server, and a busy machine makes the floods no weaker. A thread of the host that has a byte to move comes
    before the one that runs Python, as the kernel would have it anyway: threads of one level take turns of 100 ms.
    """
    here = sorted(os.sched_getaffinity(0))
    if len(here) < 2:
        yield "all on one core"
        return
    for thread in map(int, os.listdir(f"/proc/{server}/task")):
        with suppress(ProcessLookupError):
            os.sched_setaffinity(thread, here[:1])
            prefer(thread, 1 if thread == server else 2)
    os.sched_setaffinity(0, here[1:2])
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, FIRST)
        yield "the server on a core of its own"
    finally:
        os.sched_setaffinity(0, here)
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, usual)


async def feel(victim: Victim, seconds: float) -> list[float]:
    """The milliseconds that the calls of a quiet client take."""
    arguments = ["-m", "attacks.quiet", str(victim.address[1]), str(seconds)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    if process.returncode:
        raise GotThrough(err.decode(errors="replace").strip())
    return json.loads(out)


def percentile(took: list[float]) -> float:
    return sorted(took)[int(len(took) * 0.99) - 1]
