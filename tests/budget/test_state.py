"""What a store costs calls that touch no state: one Python call, and no work of the store."""

from pathlib import Path

import pytest

from dovetail import Server
from dovetail.stores import MemoryStore, SqliteStore
from tests.budget.test_http import Measured, opened, serving
from tests.support.aio import run
from tests.support.web import modern, modern_headers, request

MORE = 1
"""Calls that a store may add: the look whether there is an idempotency key. That is 3 % of the CPU time at most."""


class Counting(MemoryStore):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def get(self, key: str) -> bytes | None:
        self.asked += 1
        return await super().get(key)

    async def put(self, key: str, value: bytes, **options: object) -> bool:  # type: ignore[override]
        self.asked += 1
        return await super().put(key, value, **options)  # type: ignore[arg-type]

    async def lease(self, key: str, owner: str, ttl: float) -> int:
        self.asked += 1
        return await super().lease(key, owner, ttl)


async def cost(server: Server, era: str) -> list[str]:
    """What one ``tools/call`` costs."""
    measured = Measured(server, "asgi")
    headers = await opened(measured, "2025-11-25") if era == "legacy" else {}
    asked = 0
    for _ in range(3):
        message = (request if era == "legacy" else modern)(
            "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}
        )
        asked = server.lifecycle.store.asked if isinstance(server.lifecycle.store, Counting) else 0
        await measured.post(message, headers or modern_headers(message))
    if isinstance(server.lifecycle.store, Counting):
        assert server.lifecycle.store.asked == asked, "the call asked nothing of the store"
    await measured.app.app.state.stop()
    return measured.calls


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_call_that_touches_no_state_costs_the_same_with_a_store(era: str, tmp_path: Path) -> None:
    @run
    async def scenario() -> None:
        without = await cost(serving(2), era)
        for store in (Counting(), SqliteStore(tmp_path / "s.db")):
            kept = serving(2)
            kept.lifecycle.use_store(store)
            with_store = await cost(kept, era)
            assert len(with_store) <= len(without) + MORE, sorted(set(with_store) - set(without))

    scenario()
