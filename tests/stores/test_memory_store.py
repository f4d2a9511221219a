"""The store in memory: the contract, and what its limits add to it."""

import logging

import pytest

from dovetail.stores import MemoryStore, Store, StoreFull
from tests.support.aio import run
from tests.support.held import held

from .contract import Clock, StoreContract


class TestMemoryStore(StoreContract):
    def make(self, clock: Clock) -> Store:
        return MemoryStore(clock=clock)

    def make_small(self, clock: Clock) -> Store:
        return MemoryStore(max_bytes=200_000, clock=clock)


@run
async def test_the_number_of_keys_is_limited_and_those_that_exist_can_be_set_again() -> None:
    clock = Clock()
    store = MemoryStore(2, clock=clock)
    await store.put("a", b"1", ttl=10)
    await store.put("b", b"2")
    with pytest.raises(StoreFull):
        await store.put("c", b"3")
    await store.put("b", b"22")
    clock.now += 10
    await store.put("c", b"3")
    assert [key for key, _ in await store.scan("")] == ["b", "c"]


@run
async def test_bytes_are_limited_too() -> None:
    store = MemoryStore(max_bytes=10)
    await store.put("a", b"12345678")
    with pytest.raises(StoreFull, match="10 bytes"):
        await store.put("b", b"123")
    await store.put("a", b"1")
    await store.put("b", b"123")


@run
async def test_a_key_set_over_and_over_does_not_grow_the_store() -> None:
    clock = Clock()
    store = MemoryStore(10, clock=clock)
    sizes: list[int] = []
    for _ in range(100):
        for _ in range(100):
            clock.now += 1
            await store.put("a", b"1", ttl=1_000_000)
        sizes.append(held(store))
    assert len(store) == 1
    assert max(sizes) < 40_000  # ten thousand notes of when it expires would take a megabyte


@run
async def test_leases_are_limited_but_those_that_ran_out_make_room() -> None:
    clock = Clock()
    store = MemoryStore(2, clock=clock)
    assert await store.lease("a", "me", 5)
    assert await store.lease("b", "me", 50)
    with pytest.raises(StoreFull):
        await store.lease("c", "me", 5)
    clock.now += 6
    assert await store.lease("c", "me", 5)


@run
async def test_a_listener_that_raises_does_not_block_other_listeners(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    heard: list[bytes] = []

    def broken(message: bytes) -> None:
        raise RuntimeError("no")

    store.subscribe("news", broken)
    store.subscribe("news", heard.append)
    with caplog.at_level(logging.CRITICAL):
        await store.publish("news", b"1")
    assert heard == [b"1"]
