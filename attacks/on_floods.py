"""All floods together: the server survives, keeps serving, and stays within its memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from .on_places import (
    a_batch_that_answers_much,
    bodies_that_never_end,
    calls_nobody_waits_for,
    clients_that_read_nothing,
)
from .report import GotThrough, Scale, attack
from .victim import Victim

FLOODS = (clients_that_read_nothing, bodies_that_never_end, a_batch_that_answers_much, calls_nobody_waits_for)
Flood = Callable[[Victim, Scale], Awaitable[str]]
MOST = 512
"""Mebibytes of the whole process: the interpreter, what the handlers make, and twice `Limits.max_buffered_bytes`."""


@attack("http", seconds=300)
async def all_floods_together(victim: Victim, scale: Scale) -> str:
    """Every flood at once and again and again. The server lives, stays small, and serves once they are over."""
    async with _flooded(victim, scale) as weighed:
        await asyncio.sleep(scale.of(1.0, 20.0))
    highest = max(weighed)
    if victim.process.returncode is not None:
        raise GotThrough(f"the server ended with status {victim.process.returncode}")
    if highest > MOST:
        raise GotThrough(f"{highest} MiB in all")
    await victim.ask("echo", text="still here")
    return f"{highest} MiB in all"


@asynccontextmanager
async def _flooded(victim: Victim, scale: Scale) -> AsyncIterator[list[int]]:
    """As long as this is open every flood continues; the mebibytes that the server had meanwhile."""
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
    """One flood after the other, each with new connections; the caller checks the results."""
    while True:
        mine = Victim(victim.process, victim.address, victim.host)
        try:
            with suppress(GotThrough, OSError, TimeoutError, asyncio.IncompleteReadError):
                await flood(mine, scale)
        finally:
            for wire in mine.wires:
                wire.drop()
