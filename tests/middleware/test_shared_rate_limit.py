"""Rates that several processes keep together, over the store they have in common."""

import asyncio
import inspect
import json
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from dovetail.middleware import Rate, RateLimit, shared_rate_limit
from dovetail.middleware.token_bucket import TokenBuckets
from dovetail.stores import MemoryStore, SqliteStore, Store, StoreUnavailable
from tests.middleware.test_rate_limit import passed, shop
from tests.support.aio import run
from tests.support.peer import Peer
from tests.support.waiting import turns, until


async def two(one: Store, other: Store, **options: Any) -> None:
    """A token that one process spends is gone in the other; another client has a full bucket."""
    limits = RateLimit(**options), RateLimit(**options)
    first, second = (shop(limit, store=store) for limit, store in zip(limits, (one, other), strict=True))
    async with first.running(), second.running():
        assert await passed(Peer(first, principal="ann"), 12) == 10
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
async def test_an_address_blocked_by_one_worker_is_blocked_by_all() -> None:
    store = MemoryStore()
    options: dict[str, Any] = {"per_principal": "1/h", "block_period": 60.0, "block_threshold": 2}
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
async def test_a_process_that_starts_later_finds_what_is_left(tmp_path: Path) -> None:
    path, options = tmp_path / "state.db", {"per_principal": "10/d"}
    first = shop(RateLimit(**options), store=SqliteStore(path))
    async with first.running():
        assert await passed(Peer(first, principal="ann"), 12) == 10
    later = shop(RateLimit(**options), store=SqliteStore(path))
    async with later.running():
        assert await passed(Peer(later, principal="ann"), 3) == 0


@run
async def test_a_message_that_cannot_be_read_changes_nothing() -> None:
    store = MemoryStore()
    limit = RateLimit(per_principal="10/h", block_period=60)
    server = shop(limit, store=store)
    async with server.running():
        heard: list[bytes] = []
        topic = f"rate/shop/{limit.rules[0].label}"
        store.subscribe(topic, heard.append)
        for message in (b"", b"\xff", b"[]", b'["ann"]', b'["ann","long"]'):
            await store.publish(topic, message)
        assert len(heard) == 5
        assert await passed(Peer(server, principal="ann"), 12) == 10


@run
async def test_a_value_that_cannot_be_read_is_replaced() -> None:
    store = MemoryStore()
    options: dict[str, Any] = {"per_principal": "10/h"}
    first, second = (shop(RateLimit(**options), store=store) for _ in range(2))
    async with first.running(), second.running():
        assert await passed(Peer(first, principal="ann"), 12) == 10
        folder = f"rate/shop/{RateLimit(**options).rules[0].label}/0"
        ((key, _),) = await store.scan(folder)
        for value in (b"", b"\xff", b"[]", b"[1,2]", b'{"full":1}'):
            await store.put(key, value)
            server = shop(RateLimit(**options), store=store)
            async with server.running():
                assert await passed(Peer(server, principal="ann"), 12) == 10
        assert await passed(Peer(second, principal="ann"), 1) == 0


@pytest.mark.parametrize("algorithm", ["bucket", "window"])
@run
async def test_calls_at_once_in_several_processes_get_exactly_the_limit(algorithm: str) -> None:
    store = MemoryStore()
    options: dict[str, Any] = {"per_principal": "50/d", "algorithm": algorithm}
    servers = [shop(RateLimit(**options), store=Pausing(store)) for _ in range(4)]
    async with AsyncExitStack() as stack:
        for server in servers:
            await stack.enter_async_context(server.running())
        served = await asyncio.gather(
            *(passed(Peer(server, principal="ann"), 10) for server in servers for _ in range(5))
        )
        assert sum(served) == 50


class Pausing:
    """A store whose verbs let other tasks run before they act, as a store in another process does."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if not inspect.iscoroutinefunction(verb):
            return verb

        async def paused(*arguments: Any, **options: Any) -> Any:
            await asyncio.sleep(0)
            result = await verb(*arguments, **options)
            await asyncio.sleep(0)
            return result

        return paused


@run
async def test_unused_tokens_return_to_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_rate_limit, "RATE_RETURN_INTERVAL", 0.01)
    store = MemoryStore()

    def process() -> shared_rate_limit.SharedBuckets:
        return shared_rate_limit.SharedBuckets(
            store, "rate/shop", [TokenBuckets(Rate(1000, 86400))], time.monotonic, print
        )

    first, second = process(), process()
    assert [await first.acquire(0, "ann") for _ in range(5)] == [0.0] * 5
    assert first.held[0]["ann"].left == 2  # 1, 2, then 4 tokens were reserved
    await until(lambda: not first.held[0])
    accepted = 0
    while not await second.acquire(0, "ann"):
        accepted += 1
    assert accepted == 995
    first.close()
    second.close()


class Failing(MemoryStore):
    """A store that fails for rate limits, or does not answer."""

    hangs = False

    async def get(self, key: str) -> bytes | None:
        if not key.startswith("rate/"):
            return await super().get(key)
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        raise StoreUnavailable("gone")


@pytest.mark.parametrize("hangs", [False, True])
@run
async def test_each_process_limits_alone_while_the_store_fails(
    monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    monkeypatch.setattr(shared_rate_limit, "RATE_STORE_TIMEOUT", 0.05)
    store = Failing()
    store.hangs = hangs
    server = shop(RateLimit(per_principal="10/d"), store=store)
    async with server.running():
        assert await passed(Peer(server, principal="ann"), 15) == 10


@run
async def test_notifications_spend_shared_tokens_and_do_not_wait() -> None:
    store = MemoryStore()
    first, second = (shop(RateLimit(per_client="10/d"), store=store) for _ in range(2))
    heard: list[Any] = []
    first.add_notification("notifications/acme", lambda params: heard.append(params))
    async with first.running(), second.running():
        notice: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/acme", "params": {}}
        for _ in range(4):
            await first.handle(json.dumps(notice).encode())
        await until(lambda: len(heard) == 4)
        await turns(20)  # the tokens are reserved afterwards; this store answers in the same turn
        assert await passed(Peer(second), 12) == 6


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
        assert await passed(Peer(second, principal="ann"), 3) == 0
