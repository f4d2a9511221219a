"""What every store has to do. Subclass `StoreContract`, say how to make one, and the tests are yours."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dovetail.stores import Store, StoreFull
from dovetail.stores.quotas import Quota, acquire_slot, release, renew
from tests.support.aio import run_limited
from tests.support.waiting import until


class Clock:
    """Time under the test's hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


async def fill(store: Store, ttl: float | None = None) -> None:
    """Put until the store refuses."""
    for number in range(1000):
        await store.put(f"f/{number}", bytes(10_000), ttl=ttl)


class StoreContract:
    """Inherit, and implement `make`; where time is not under the test's hand, `tick` and `later` too."""

    tick = 1.0
    """Seconds that count as one below."""

    def make(self, clock: Clock) -> Store:
        raise NotImplementedError

    def make_small(self, clock: Clock) -> Store:
        """A store that holds some hundred kilobytes."""
        raise NotImplementedError

    async def later(self, clock: Clock, ticks: float) -> None:
        clock.now += ticks

    def check(self, scenario: Callable[[Store, Clock], Awaitable[None]], *, small: bool = False) -> None:
        async def body() -> None:
            clock = Clock()
            store = self.make_small(clock) if small else self.make(clock)
            await store.open()
            try:
                await scenario(store, clock)
            finally:
                await store.close()

        run_limited(body())

    def test_what_was_put_is_found_and_what_was_not_is_none(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            assert await store.get("a") is None
            assert await store.put("a", b"1") is True
            assert await store.get("a") == b"1"
            await store.put("a", b"2")
            assert await store.get("a") == b"2"
            await store.put("in/a/folder", bytes(range(256)))
            assert await store.get("in/a/folder") == bytes(range(256))
            await store.put("empty", b"")
            assert await store.get("empty") == b""

        self.check(scenario)

    def test_an_entry_is_gone_when_its_time_is_over_and_not_sooner(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            await store.put("f/short", b"1", ttl=10 * self.tick)
            await store.put("f/long", b"2")
            await self.later(clock, 5)
            assert await store.get("f/short") == b"1"
            await self.later(clock, 5)
            assert await store.get("f/short") is None
            assert [key for key, _ in await store.scan("f")] == ["f/long"]

        self.check(scenario)

    def test_overwriting_a_key_restarts_its_lifetime(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            await store.put("a", b"1", ttl=10 * self.tick)
            await self.later(clock, 6)
            await store.put("a", b"2", ttl=10 * self.tick)
            await self.later(clock, 6)
            assert await store.get("a") == b"2"
            await store.put("a", b"3")
            await self.later(clock, 20)
            assert await store.get("a") == b"3"
            assert [key for key, _ in await store.scan("")] == ["a"]

        self.check(scenario)

    def test_only_new_lets_exactly_the_first_win(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            won = await asyncio.gather(
                *(store.put("once", b"%d" % n, ttl=10 * self.tick, only_new=True) for n in range(20))
            )
            assert won.count(True) == 1
            assert await store.get("once") == b"%d" % won.index(True)
            await self.later(clock, 10)
            assert await store.put("once", b"3", only_new=True) is True

        self.check(scenario)

    def test_of_many_who_expect_the_same_value_one_sets_the_next(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            assert await store.put("a", b"1", expect=b"0") is False
            await store.put("a", b"0")
            won = await asyncio.gather(*(store.put("a", b"%d" % n, expect=b"0") for n in range(1, 20)))
            assert won.count(True) == 1
            assert await store.get("a") == b"%d" % (won.index(True) + 1)
            await store.put("e", b"")
            assert await store.put("e", b"1", expect=b"") is True

        self.check(scenario)

    def test_deleting_says_whether_there_was_something(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            await store.put("a", b"1", ttl=5 * self.tick)
            assert await store.delete("a") is True
            assert await store.delete("a") is False
            await store.put("b", b"1", ttl=5 * self.tick)
            await self.later(clock, 6)
            assert await store.delete("b") is False

        self.check(scenario)

    def test_a_scan_goes_through_a_folder_in_order_page_by_page(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            for name in ("t/c", "t/a", "u/a", "t/b", "s/z", "t/b/deeper", "tt/a", "plain"):
                await store.put(name, name.encode())
            assert await store.scan("t") == [("t/a", b"t/a"), ("t/b", b"t/b"), ("t/c", b"t/c")]
            assert [key for key, _ in await store.scan("t", limit=2)] == ["t/a", "t/b"]
            assert [key for key, _ in await store.scan("t", after="t/b", limit=2)] == ["t/c"]
            assert await store.scan("t", after="t/c") == []
            assert await store.scan("nothing") == []
            assert await store.scan("t/b") == [("t/b/deeper", b"t/b/deeper")]
            assert await store.scan("") == [("plain", b"plain")]

        self.check(scenario)

    def test_a_log_keeps_its_order_and_its_newest_entries(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            keys = [await store.append("log/1", str(n).encode(), keep=3) for n in range(5)]
            assert keys == sorted(keys)
            assert [value for _, value in await store.scan("log/1")] == [b"2", b"3", b"4"]
            assert [value for _, value in await store.scan("log/1", after=keys[3])] == [b"4"]
            await store.append("log/2", b"other", keep=3)
            assert len(await store.scan("log/1")) == 3
            assert await store.get(keys[0]) is None

        self.check(scenario)

    def test_a_log_that_ran_empty_goes_on_after_its_old_entries(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            last = [await store.append("log", b"old", keep=10, ttl=5 * self.tick) for _ in range(3)][-1]
            await self.later(clock, 6)
            assert await store.scan("log") == []
            await store.append("log", b"new", keep=10, ttl=5 * self.tick)
            assert [value for _, value in await store.scan("log", after=last)] == [b"new"]

        self.check(scenario)

    def test_a_lease_belongs_to_one_owner_until_it_runs_out_or_is_given_back(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            first = await store.lease("job", "a", 10 * self.tick)
            assert first > 0
            assert await store.lease("job", "b", 10 * self.tick) == 0
            await self.later(clock, 6)
            assert await store.lease("job", "a", 10 * self.tick) == first
            await self.later(clock, 6)
            assert await store.lease("job", "b", 10 * self.tick) == 0
            assert await store.lease("job", "a", 0) > 0
            second = await store.lease("job", "b", 10 * self.tick)
            assert second > first
            await self.later(clock, 11)
            assert await store.lease("job", "a", 10 * self.tick) > second

        self.check(scenario)

    def test_of_many_who_want_a_lease_one_gets_it(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            got = await asyncio.gather(*(store.lease("job", str(n), 10 * self.tick) for n in range(20)))
            assert len([number for number in got if number]) == 1

        self.check(scenario)

    def test_who_lost_its_lease_writes_nothing_any_more(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            mine = await store.lease("f/job", "a", 10 * self.tick)
            assert await store.put("f/job", b"1", fence=mine) is True
            await self.later(clock, 11)
            assert await store.put("f/job", b"2", fence=mine) is False
            theirs = await store.lease("f/job", "b", 10 * self.tick)
            assert await store.put("f/job", b"3", fence=mine) is False
            assert await store.put("f/job", b"4", fence=theirs) is True
            assert await store.get("f/job") == b"4"

        self.check(scenario)

    def test_published_messages_reach_their_subscribers_only(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            heard: list[bytes] = []
            other: list[bytes] = []
            await store.publish("news", b"too early")
            stop = store.subscribe("news", heard.append)
            store.subscribe("weather", other.append)
            await store.publish("news", b"1")
            stop()
            stop()
            await store.publish("news", b"2")
            assert heard == [b"1"]
            assert other == []

        self.check(scenario)

    def test_a_full_store_refuses_new_values_keeps_the_old_and_has_room_after_expiry(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            await store.put("kept", b"1")
            with pytest.raises(StoreFull):
                await fill(store, ttl=20 * self.tick)
            assert await store.get("kept") == b"1"
            assert await store.get("f/0") == bytes(10_000)
            await self.later(clock, 20)
            await store.put("new", bytes(10_000))
            assert await store.get("new") == bytes(10_000)

        self.check(scenario, small=True)

    def test_closing_twice_is_fine(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            await store.close()

        self.check(scenario)


class SharedStoreContract(StoreContract):
    """What stores add that several processes use: two objects stand for two processes."""

    def test_what_one_writes_the_other_reads(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            other = self.make(clock)
            await store.put("f/a", b"1")
            assert await other.get("f/a") == b"1"
            assert await other.put("f/a", b"2", only_new=True) is False
            key = await other.append("log", b"x", keep=5)
            assert await store.append("log", b"y", keep=5) > key
            number = await store.lease("f/a", "one", 10 * self.tick)
            assert await other.lease("f/a", "two", 10 * self.tick) == 0
            assert await other.put("f/a", b"3", fence=number - 1) is False
            await other.close()

        self.check(scenario)

    def test_what_is_published_reaches_other_processes_in_order(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            other = self.make(clock)
            heard: list[bytes] = []
            other.subscribe("news", heard.append)
            await other.open()
            for number in range(100):
                await store.publish("news", b"%d" % number)
            await store.publish("weather", b"sun")
            await until(lambda: len(heard) == 100)
            assert heard == [b"%d" % number for number in range(100)]
            await other.close()
            await store.publish("news", b"nobody is there")

        self.check(scenario)

    def test_an_owner_has_so_many_places_and_all_have_so_many_together(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            places = Quota(store, "thing", own=3, total=5)
            first = [await places.acquire("ann", 100) for _ in range(3)]
            with pytest.raises(StoreFull, match="3 things of one owner"):
                await places.acquire("ann", 100)
            await release(store, first[0])
            await places.acquire("ann", 100)
            for _ in range(2):
                await places.acquire("bob", 100)
            with pytest.raises(StoreFull, match="5 things"):
                await places.acquire("bob", 100)
            await renew(store, first[1], self.tick)
            await self.later(clock, 1.5)
            # One has expired, and refused ones have left no state.
            taken = await asyncio.gather(
                *(places.acquire("bob", 100) for _ in range(3)), return_exceptions=True
            )
            assert sum(isinstance(one, StoreFull) for one in taken) == 2, taken

        self.check(scenario)

    def test_many_places_are_taken_to_the_last(self) -> None:
        async def scenario(store: Store, clock: Clock) -> None:
            taken: set[str] = set()
            while (place := await acquire_slot(store, "many", 300, b"x", None)) is not None:
                assert place not in taken
                taken.add(place)
            assert len(taken) == 300

        self.check(scenario)
