"""Rates that several processes keep together, over the store they have in common."""

from pathlib import Path
from typing import Any

import pytest

from dovetail.middleware import RateLimit
from dovetail.stores import MemoryStore, SqliteStore, Store
from tests.middleware.test_rate_limit import passed, shop
from tests.support.aio import run
from tests.support.peer import Peer
from tests.support.waiting import until


async def two(one: Store, other: Store, **options: Any) -> None:
    """What one process lets pass is missing in the other; whoever has not been anywhere passes both."""
    limits = RateLimit(**options), RateLimit(**options)
    first, second = (shop(limit, store=store) for limit, store in zip(limits, (one, other), strict=True))
    async with first.running(), second.running():
        assert await passed(Peer(first, principal="ann"), 12) == 10
        await until(lambda: "ann" in limits[1].rules[0].names())
        assert await passed(Peer(second, principal="ann"), 3) == 0
        assert await passed(Peer(second, principal="bob"), 3) == 3


@pytest.mark.parametrize("algorithm", ["bucket", "window"])
@run
async def test_what_one_lets_pass_the_other_counts(algorithm: str) -> None:
    store = MemoryStore()
    await two(store, store, per_principal="10/h", algorithm=algorithm)


@run
async def test_the_same_between_processes_of_one_machine(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    await two(SqliteStore(path), SqliteStore(path), per_principal="10/h")


@run
async def test_whoever_is_blocked_by_one_is_blocked_by_all() -> None:
    store, options = MemoryStore(), {"per_principal": "1/h", "block": 60.0, "violations": 2}
    first, second = (shop(RateLimit(**options), store=store) for _ in range(2))
    async with first.running(), second.running():
        assert await passed(Peer(first, principal="ann"), 6) == 1
        codes: list[int] = []

        async def ask() -> None:
            answer = await Peer(second, principal="ann").send("tools/list")
            codes.append(answer["error"]["code"] if "error" in answer else 0)

        for _ in range(2000):
            await ask()
            if codes[-1] == 1056:
                break
            await until(lambda: True)
        assert codes[-1] == 1056


@run
async def test_news_that_cannot_be_read_change_nothing() -> None:
    store = MemoryStore()
    limit = RateLimit(per_principal="10/h")
    server = shop(limit, store=store)
    async with server.running():
        heard: list[bytes] = []
        topics = [f"rate/shop/principal-{360:g}-{10:g}"]
        store.subscribe(topics[0], heard.append)
        for news in (b"", b"\xff", b"[]", b'["x",[[99,"ann",5]]]', b'["x",[[0,["a","b"],5]]]'):
            await store.publish(topics[0], news)
        assert len(heard) == 5
        assert await passed(Peer(server, principal="ann"), 12) == 10


@run
async def test_a_limit_is_still_shared_after_the_store_was_closed_and_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    one, other = SqliteStore(path), SqliteStore(path)
    limits = RateLimit(per_principal="10/h"), RateLimit(per_principal="10/h")
    first, second = (shop(limit, store=store) for limit, store in zip(limits, (one, other), strict=True))
    await other.open()
    await other.close()  # as a command does that first checks whether it can be used
    async with first.running(), second.running():
        assert await passed(Peer(first, principal="ann"), 12) == 10
        await until(lambda: "ann" in limits[1].rules[0].names())
        assert await passed(Peer(second, principal="ann"), 3) == 0
