"""All floods together, and what a quiet client feels of them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

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
MOST = 512
"""Mebibytes of the whole process."""
FIRST = -20
"""How nice those who flood are to others on their core."""
SLOWER = 2.0
SHORTLY = 100.0
"""How many times its quiet value the 99th percentile may become; and the milliseconds that are enough in the short
form, since whatever else runs on the machine is in it."""


@attack("http", seconds=150)
async def all_floods_together(victim: Victim, scale: Scale) -> str:
    """Every flood at once, while a quiet client of its own process goes on calling."""
    with apart(victim.process.pid) as cores:
        quiet = await feel(victim, scale.of(2, 10))
        floods = [asyncio.create_task(_carefree(one(victim, scale))) for one in FLOODS]
        highest = 0

        async def weigh() -> None:
            nonlocal highest
            while True:
                highest = max(highest, victim.memory() >> 20)
                await asyncio.sleep(0.02)

        weighing = asyncio.create_task(weigh())
        try:
            loud = await feel(victim, scale.of(4, 30))
        finally:
            for task in (*floods, weighing):
                task.cancel()
            await asyncio.gather(*floods, weighing, return_exceptions=True)
    before, after = percentile(quiet), percentile(loud)
    detail = (
        f"{len(loud)} calls of a quiet client: p99 {before:.1f} → {after:.1f} ms (the longest {max(loud):.0f}), "
        f"{highest} MiB in all; {cores}"
    )
    if highest > MOST or after > max(SLOWER * before, SHORTLY if scale.short else 0.0):
        raise GotThrough(detail)
    return detail


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


async def feel(victim: Victim, seconds: int) -> list[float]:
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


async def _carefree(flood: object) -> None:
    try:
        await flood  # type: ignore[misc]
    except (GotThrough, ConnectionError, TimeoutError):
        pass  # each is judged on its own elsewhere
