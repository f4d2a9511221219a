"""What every store has to do. Subclass `StoreContract`, say how to make one, and the tests are yours."""

from collections.abc import Callable

import pytest

from dovetail.stores.base import Store, StoreFull
from tests.support.aio import run_limited


class Clock:
    """Time under the test's hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class StoreContract:
    """Inherit, and implement `make`."""

    def make(self, clock: Callable[[], float], *, entries: int = 1000) -> Store:
        raise NotImplementedError

    def test_what_was_put_is_found_and_what_was_not_is_none(self) -> None:
        async def scenario() -> None:
            store = self.make(Clock())
            assert await store.get("a") is None
            assert await store.put("a", b"1") is True
            assert await store.get("a") == b"1"
            await store.put("a", b"2")
            assert await store.get("a") == b"2"
            await store.close()

        run_limited(scenario())

    def test_an_entry_is_gone_when_its_time_is_over_and_not_a_moment_sooner(self) -> None:
        async def scenario() -> None:
            clock = Clock()
            store = self.make(clock)
            await store.put("short", b"1", ttl=10)
            await store.put("long", b"2")
            clock.now += 9.9
            assert await store.get("short") == b"1"
            clock.now += 0.1
            assert await store.get("short") is None
            assert [key for key, _ in await store.scan("")] == ["long"]
            await store.close()

        run_limited(scenario())

    def test_putting_again_starts_the_time_anew(self) -> None:
        async def scenario() -> None:
            clock = Clock()
            store = self.make(clock)
            await store.put("a", b"1", ttl=10)
            clock.now += 9
            await store.put("a", b"2", ttl=10)
            clock.now += 9
            assert await store.get("a") == b"2"
            await store.put("a", b"3")
            clock.now += 1000
            assert await store.get("a") == b"3"
            await store.close()

        run_limited(scenario())

    def test_only_new_lets_exactly_the_first_win(self) -> None:
        async def scenario() -> None:
            clock = Clock()
            store = self.make(clock)
            assert await store.put("once", b"1", ttl=10, only_new=True) is True
            assert await store.put("once", b"2", ttl=10, only_new=True) is False
            assert await store.get("once") == b"1"
            clock.now += 10
            assert await store.put("once", b"3", only_new=True) is True
            await store.close()

        run_limited(scenario())

    def test_deleting_says_whether_there_was_something(self) -> None:
        async def scenario() -> None:
            clock = Clock()
            store = self.make(clock)
            await store.put("a", b"1", ttl=5)
            assert await store.delete("a") is True
            assert await store.delete("a") is False
            await store.put("b", b"1", ttl=5)
            clock.now += 6
            assert await store.delete("b") is False
            await store.close()

        run_limited(scenario())

    def test_a_scan_goes_through_a_prefix_in_order_page_by_page(self) -> None:
        async def scenario() -> None:
            store = self.make(Clock())
            for name in ("t/c", "t/a", "u/a", "t/b", "s/z"):
                await store.put(name, name.encode())
            assert await store.scan("t/") == [("t/a", b"t/a"), ("t/b", b"t/b"), ("t/c", b"t/c")]
            assert [key for key, _ in await store.scan("t/", limit=2)] == ["t/a", "t/b"]
            assert [key for key, _ in await store.scan("t/", after="t/b", limit=2)] == ["t/c"]
            assert await store.scan("t/", after="t/c") == []
            assert await store.scan("nothing/") == []
            await store.close()

        run_limited(scenario())

    def test_a_log_keeps_its_order_and_its_newest_entries(self) -> None:
        async def scenario() -> None:
            store = self.make(Clock())
            keys = [await store.append("log/1", str(n).encode(), keep=3) for n in range(5)]
            assert keys == sorted(keys)
            assert [value for _, value in await store.scan("log/1/")] == [b"2", b"3", b"4"]
            assert [value for _, value in await store.scan("log/1/", after=keys[3])] == [b"4"]
            await store.append("log/2", b"other", keep=3)
            assert len(await store.scan("log/1/")) == 3
            await store.close()

        run_limited(scenario())

    def test_a_log_that_ran_empty_goes_on_after_its_old_entries(self) -> None:
        async def scenario() -> None:
            clock = Clock()
            store = self.make(clock)
            last = [await store.append("log", b"old", keep=10, ttl=5) for _ in range(3)][-1]
            clock.now += 6
            assert await store.scan("log/") == []
            await store.append("log", b"new", keep=10, ttl=5)
            assert [value for _, value in await store.scan("log/", after=last)] == [b"new"]
            await store.close()

        run_limited(scenario())

    def test_a_lease_belongs_to_one_owner_until_it_runs_out_or_is_given_back(self) -> None:
        async def scenario() -> None:
            clock = Clock()
            store = self.make(clock)
            assert await store.lease("job", "a", 10) is True
            assert await store.lease("job", "b", 10) is False
            clock.now += 9
            assert await store.lease("job", "a", 10) is True
            clock.now += 9
            assert await store.lease("job", "b", 10) is False
            assert await store.lease("job", "a", 0) is True
            assert await store.lease("job", "b", 10) is True
            clock.now += 10
            assert await store.lease("job", "a", 10) is True
            await store.close()

        run_limited(scenario())

    def test_what_is_published_reaches_those_who_listen_and_nobody_else(self) -> None:
        async def scenario() -> None:
            store = self.make(Clock())
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
            await store.close()

        run_limited(scenario())

    def test_a_full_store_refuses_new_keys_keeps_the_old_and_has_room_after_expiry(self) -> None:
        async def scenario() -> None:
            clock = Clock()
            store = self.make(clock, entries=2)
            await store.put("a", b"1", ttl=10)
            await store.put("b", b"2")
            with pytest.raises(StoreFull):
                await store.put("c", b"3")
            await store.put("b", b"22")
            assert await store.get("a") == b"1"
            clock.now += 10
            await store.put("c", b"3")
            assert [key for key, _ in await store.scan("")] == ["b", "c"]
            await store.close()

        run_limited(scenario())

    def test_closing_twice_is_fine(self) -> None:
        async def scenario() -> None:
            store = self.make(Clock())
            await store.close()
            await store.close()

        run_limited(scenario())
