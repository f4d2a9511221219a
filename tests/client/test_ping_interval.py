"""Keep-alive: off by default, on legacy connections a ping in time."""

from __future__ import annotations

import asyncio
from typing import Any

from dovetail import Client, Reconnect
from dovetail.testing import FakeClock

from ..support.aio import run
from .scripted import Peer, Scripted, legacy, modern


def answering(*, pings: int) -> Any:
    left = pings

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        nonlocal left
        if message["method"] == "ping":
            left -= 1
            if left >= 0:
                peer.result(message, {})

    return answer


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def pings(target: Scripted) -> int:
    return sum(peer.methods.count("ping") for peer in target.peers)


@run
async def test_a_server_that_answers_is_pinged_and_kept() -> None:
    clock, target = FakeClock(), legacy(answering(pings=100))
    async with Client(target, revision="2024-11-05", ping_interval=10, clock=clock) as client:
        for _ in range(3):
            await settle()
            clock.advance(10)
        await settle()
        assert pings(target) == 3
        assert client.state == "ready"
    await settle()
    assert len(asyncio.all_tasks()) == 1


@run
async def test_a_server_that_stops_responding_is_reconnected() -> None:
    clock, target = FakeClock(), legacy(answering(pings=1))
    states: list[str] = []
    options: dict[str, Any] = {"reconnect": Reconnect(initial_delay=1, jitter=0), "on_state": states.append}
    async with Client(target, revision="2024-11-05", ping_interval=10, clock=clock, **options) as client:
        for _ in range(3):  # answered; asked again; silent for the third
            await settle()
            clock.advance(10)
        await settle()
        assert client.state == "backoff"
        clock.advance(1)
        await settle()
        assert client.state == "ready"
        assert len(target.peers) == 2


@run
async def test_without_the_option_and_on_modern_servers_nothing_is_sent() -> None:
    for target, options in (
        (legacy(answering(pings=9)), {"revision": "2024-11-05"}),
        (modern(answering(pings=9)), {"ping_interval": 10}),
    ):
        clock = FakeClock()
        async with Client(target, clock=clock, **options):  # type: ignore[arg-type]
            await settle()
            clock.advance(100)
            await settle()
            assert pings(target) == 0
