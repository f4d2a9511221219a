"""Callbacks that are slower than the server's news."""

import asyncio
from typing import Any

from dovetail import Client
from dovetail.settings import CALLBACKS_RUNNING

from ..support.aio import run
from .scripted import Peer, legacy


@run
async def test_news_for_which_there_is_no_room_are_dropped_and_counted() -> None:
    gate = asyncio.Event()

    async def slow(_: Any) -> None:
        await gate.wait()

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message.get("method") == "ping":
            for _ in range(CALLBACKS_RUNNING + 3):
                log = {"level": "info", "data": "x"}
                peer.say({"jsonrpc": "2.0", "method": "notifications/message", "params": log})
            peer.result(message, {})

    async with Client(legacy(answer), revision="legacy", on_log=slow) as client:
        await client.ping()
        assert client.violations == {"notification_queue_full": 3}
        gate.set()
