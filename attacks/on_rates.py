"""One client far over its rate, and what another one feels of it: as long as a guard is on, next to nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from statistics import median

from .on_floods import apart, feel, percentile
from .report import GotThrough, Scale, attack
from .victim import Victim, Wire, call, http, request, serve

ELSEWHERE = "127.0.0.2"
"""Where the flood comes from: the quiet client is told apart from it by its address."""
CONNECTIONS = 64
SLOWER = 2.0
SHORTLY = 20.0
"""How many times its quiet value the 99th percentile may become. In the short form whatever else runs on the machine is
in it, so there the median is judged, and so many milliseconds are enough."""
ROUNDS = 3
"""Times without and with the flood, in turn: what one moment of the machine does to a 99th percentile is not judged."""
CASES = (
    ("VICTIM_BLOCK", "modern"),
    ("VICTIM_BLOCK", "legacy"),
    ("VICTIM_RATE", "modern"),
    ("VICTIM_RATE", "legacy"),
)
"""Whether who goes on is blocked, and how it speaks."""


@attack("http", seconds=120, own=True)
async def one_client_over_its_rate(host: str, scale: Scale) -> str:
    """One client calls as fast as it can over many connections, in both eras, while a quiet one goes on calling."""
    told: list[str] = []
    for guard, era in CASES[: scale.of(1, len(CASES))]:
        async with serve(host, **{guard: "1"}) as limited:
            told.append(f"{guard} {era} {await _one(limited, era, scale)}")
    return "; ".join(told)


async def _one(victim: Victim, era: str, scale: Scale) -> str:
    quiet, loud, usual, answers = list[float](), list[float](), list[float](), Counter[str]()
    with apart(victim.process.pid):
        await feel(victim, scale.of(0.2, 1.0))  # what is made once is made
        for _ in range(scale.of(1, ROUNDS)):
            quiet.append(percentile(await feel(victim, scale.of(0.3, 2.0))))
            async with _flood(victim, era, answers):
                took = await feel(victim, scale.of(1.0, 2.0))
            loud.append(percentile(took))
            usual.append(median(took))
    before, after = median(quiet), median(loud)
    detail = f"p99 {before:.2f} → {after:.2f} ms ({after / before:.1f}×) beside {dict(answers)}"
    slow = median(usual) > SHORTLY if scale.short else after > SLOWER * before
    if not answers["refused"]:
        raise GotThrough(f"nobody was refused: {detail}")
    if slow:
        raise GotThrough(f"{era}: {detail}")
    return detail


@asynccontextmanager
async def _flood(victim: Victim, era: str, answers: Counter[str]) -> AsyncIterator[None]:
    """From one client, as long as this is open; how its messages were answered is counted."""
    session = await victim.session() if era == "legacy" else None
    floods = [asyncio.create_task(_pour(victim, _call(session), answers)) for _ in range(CONNECTIONS)]
    try:
        yield
    finally:
        for task in floods:
            task.cancel()
        await asyncio.gather(*floods, return_exceptions=True)


def _call(session: str | None) -> bytes:
    if session is None:
        return call("echo", text="hello")
    message = request("tools/call", {"name": "echo", "arguments": {"text": "hello"}})
    return http(headers={"Mcp-Session-Id": session}, body=message)


async def _pour(victim: Victim, data: bytes, answers: Counter[str]) -> None:
    while True:
        with suppress(OSError):
            wire = Wire(*await asyncio.open_connection(*victim.address, local_addr=(ELSEWHERE, 0)))
            try:
                while await _asked(wire, data, answers):
                    pass
            finally:
                wire.drop()


async def _asked(wire: Wire, data: bytes, answers: Counter[str]) -> bool:
    wire.send(data)
    status, _, body = await wire.response()
    if status:
        answers["refused" if b'"refusal":true' in body else "served"] += 1
    return status != 0
