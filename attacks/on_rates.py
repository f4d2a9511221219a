"""One client far over its rate: a guard refuses it, and another client continues being served."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from .report import GotThrough, Scale, attack
from .victim import Victim, Wire, call, http, request, serve

ELSEWHERE = "127.0.0.2"
"""Where the flood comes from: the other client is notified apart from it by its address."""
CONNECTIONS = 64
PATIENCE = 20.0
"""Seconds the guard has to refuse the first message of the flood."""
CASES = (
    ("VICTIM_BLOCK", "modern"),
    ("VICTIM_BLOCK", "legacy"),
    ("VICTIM_RATE", "modern"),
    ("VICTIM_RATE", "legacy"),
)
"""Whether who continues is blocked, and how it speaks."""


@attack("http", seconds=120, own=True)
async def one_client_over_its_rate(host: str, scale: Scale) -> str:
    """One client calls as fast as it can over many connections, in both eras, while another one continues calling."""
    told: list[str] = []
    for guard, era in CASES[: scale.of(1, len(CASES))]:
        async with serve(host, **{guard: "1"}) as limited:
            told.append(f"{guard} {era} {await _one(limited, era, scale)}")
    return "; ".join(told)


async def _one(victim: Victim, era: str, scale: Scale) -> str:
    answers, served = Counter[str](), 0
    loop = asyncio.get_running_loop()
    async with _flood(victim, era, answers):
        end = loop.time() + scale.of(1.0, 4.0)
        while loop.time() < end or not answers["refused"]:
            await victim.ask("echo", text="hello")
            served += 1
            if loop.time() > end + PATIENCE:
                raise GotThrough(f"{era}: nobody was refused beside {dict(answers)}")
    return f"{served} calls of the other client served beside {dict(answers)}"


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
