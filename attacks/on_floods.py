"""All floods together, and what a quiet client feels of them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from statistics import median

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
MOST = 512
"""Mebibytes of the whole process."""
FIRST = -20
"""How nice those who flood are to others on their core."""
SLOWER = 2.0
SHORTLY = 100.0
"""How many times its quiet value the 99th percentile may become. In the short form whatever else runs on the machine is
in it, so there the median is judged, and so many milliseconds are enough."""


@attack("http", seconds=200)
async def all_floods_together(victim: Victim, scale: Scale) -> str:
    """Every flood at once and again and again, while a quiet client of its own process goes on calling."""
    quiet, loud, usual, highest = list[float](), list[float](), list[float](), 0
    with apart(victim.process.pid) as cores:
        await feel(victim, scale.of(0.2, 1.0))  # what is made once is made
        for _ in range(scale.of(1, ROUNDS)):
            quiet.append(percentile(await feel(victim, scale.of(0.3, 5.0))))
            async with _flooded(victim, scale) as weighed:
                took = await feel(victim, scale.of(2.0, 10.0))
            loud.append(percentile(took))
            usual.append(median(took))
            highest = max(highest, *weighed)
    before, after = median(quiet), median(loud)
    times = ", ".join(f"{one:.1f} → {two:.1f}" for one, two in zip(quiet, loud, strict=True))
    detail = f"p99 of a quiet client {before:.1f} → {after:.1f} ms (rounds: {times}), {highest} MiB in all; {cores}"
    slow = median(usual) > SHORTLY if scale.short else after > SLOWER * before
    if highest > MOST or slow:
        raise GotThrough(detail)
    return detail


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
