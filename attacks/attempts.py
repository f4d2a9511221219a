"""Carrying out one attack: a server in a separate process is attacked from here, a client from there."""

from __future__ import annotations

import asyncio
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import active_children, get_context

from . import (
    on_beside,
    on_callers,
    on_clients,
    on_dev,
    on_floods,
    on_gateways,
    on_heads,
    on_lines,
    on_logins,
    on_places,
    on_rates,
    on_slowness,
    on_tcp,
    on_tokens,
    on_websocket,
)
from .report import ATTACKS, Attack, Outcome, Scale, carry_out
from .victim import piped, serve

MODULES = (
    on_tcp,
    on_lines,
    on_heads,
    on_slowness,
    on_beside,
    on_callers,
    on_places,
    on_websocket,
    on_floods,
    on_gateways,
    on_rates,
    on_tokens,
    on_logins,
    on_dev,
    on_clients,
)
"""Importing them registers their attacks."""


def attempt(one: Attack, scale: Scale) -> Outcome:
    """Carry out one attack on a separate victim. A client that hangs is killed."""
    if one.face != "client":
        return asyncio.run(_against_a_server(one, scale))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        future = apart.submit(_against_a_client, one.name, scale)
        try:
            return future.result(one.seconds + 30)
        except TimeoutError:
            for process in active_children():
                process.kill()
            return Outcome(one, held=False, detail="the client hangs for good", seconds=one.seconds)


async def _against_a_server(one: Attack, scale: Scale) -> Outcome:
    if one.own:
        return await carry_out(one, one.face, scale)
    if one.face == "stdio":
        async with piped() as process:
            return await carry_out(one, process, scale)
    async with serve(one.face, **({"VICTIM_PRINCIPAL": "1"} if one.named else {})) as victim:
        return await carry_out(one, victim, scale)


def _against_a_client(name: str, scale: Scale) -> Outcome:
    one = next(each for each in ATTACKS if each.face == "client" and each.name == name)
    outcome = asyncio.run(carry_out(one, scale))
    return replace(outcome, attack=replace(one, run=_done))


async def _done() -> str:
    """Stands for the attack itself where an outcome travels between processes."""
    return ""
