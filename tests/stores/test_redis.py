"""The Redis store: the contract on a server, a cluster and with a sentinel; and failures of Redis."""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import redis.asyncio

from dovetail import DovetailError
from dovetail.stores import (
    RedisStore,
    Store,
    StoreError,
    StoreFull,
    StoreUnavailable,
    StoreUnreadable,
    from_url,
)
from tests.support.aio import run
from tests.support.redis import RedisServer, free_port
from tests.support.stopwatch import Stopwatch
from tests.support.waiting import HANG, turns, until, wait_until

from .contract import Clock, SharedStoreContract

pytestmark = pytest.mark.redis

TICK = 0.03
"""Redis has its own clock, so here real time passes."""

numbers = itertools.count()


class OnRedis(SharedStoreContract):
    tick = TICK
    prefix = "dovetail:"
    url: str

    @pytest.fixture(autouse=True)
    def fresh(self, server: RedisServer) -> Iterator[None]:
        self.url = self.where(server)
        self.prefix = f"test{next(numbers)}:"
        yield
        server.ask("CONFIG", "SET", "maxmemory", "0")
        server.ask("FLUSHALL")

    def where(self, server: RedisServer) -> str:
        return server.url

    def make(self, clock: Clock) -> Store:
        return RedisStore(self.url, prefix=self.prefix)

    async def later(self, clock: Clock, ticks: float) -> None:
        await asyncio.sleep(ticks * TICK)


class TestRedisStore(OnRedis):
    @pytest.fixture(scope="class")
    @classmethod
    def server(cls) -> Iterator[RedisServer]:
        with RedisServer() as server:
            cls.small = server
            yield server

    small: RedisServer

    def make_small(self, clock: Clock) -> Store:
        self.small.ask("CONFIG", "SET", "maxmemory", "2mb")
        return self.make(clock)


class TestRedisCluster(OnRedis):
    @pytest.fixture(scope="class")
    @classmethod
    def server(cls) -> Iterator[RedisServer]:
        with RedisServer("--cluster-enabled", "yes", "--cluster-port", str(free_port())) as server:
            assert server.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383") == "OK"
            wait_until(lambda: server.ask("SET", "ready", "1") == "OK")
            yield server

    def where(self, server: RedisServer) -> str:
        return f"redis+cluster://127.0.0.1:{server.port}"

    @pytest.mark.skip(reason="one server's memory is the same everywhere")
    def test_a_full_store_refuses_new_values_keeps_the_old_and_has_room_after_expiry(self) -> None: ...


class TestRedisBehindSentinel(OnRedis):
    @pytest.fixture(scope="class")
    @classmethod
    def server(cls) -> Iterator[RedisServer]:
        with RedisServer() as server:
            watch = f"sentinel monitor main 127.0.0.1 {server.port} 1"
            with RedisServer(watch, sentinel=True) as sentinel:
                cls.sentinel = sentinel
                yield server

    sentinel: RedisServer

    def where(self, server: RedisServer) -> str:
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/main/0"

    @pytest.mark.skip(reason="one server's memory is the same everywhere")
    def test_a_full_store_refuses_new_values_keeps_the_old_and_has_room_after_expiry(self) -> None: ...


@run
async def test_a_restart_of_redis_is_waited_for_and_loses_nothing_acknowledged() -> None:
    with RedisServer("--appendfsync", "always") as server:
        store, other = RedisStore(server.url), RedisStore(server.url)
        heard: list[bytes] = []
        other.subscribe("news", heard.append)
        await other.open()
        await store.put("f/a", b"1")
        await store.append("log", b"1", keep=10)
        server.kill()
        waiting = asyncio.create_task(store.append("log", b"2", keep=10))
        await turns()
        await asyncio.to_thread(server.start)
        await waiting
        assert await store.get("f/a") == b"1"
        assert [value for _, value in await store.scan("log")] == [b"1", b"2"]
        await store.publish("news", b"after")
        await until(lambda: heard == [b"after"])
        await store.close()
        await other.close()


@run
async def test_an_unreachable_redis_is_reported_without_its_address() -> None:
    with RedisServer() as server:
        store = RedisStore(server.url)
        await store.put("a", b"1")
        server.kill()
        with pytest.raises(StoreUnavailable) as caught:
            await store.get("a")
        assert str(server.port) not in caught.value.message
        assert caught.value.kind == "dependency_failed"
        await store.close()


@run
async def test_messages_published_while_disconnected_arrive_after_the_reconnect() -> None:
    with RedisServer() as server:
        store, other = RedisStore(server.url), RedisStore(server.url)
        heard: list[bytes] = []
        other.subscribe("news", heard.append)
        await other.open()
        await store.publish("news", b"1")
        server.ask("CLIENT", "KILL", "TYPE", "normal")
        for number in range(2, 10):
            await store.publish("news", b"%d" % number)
        await until(lambda: len(heard) == 9)
        assert heard == [b"%d" % number for number in range(1, 10)]
        await store.close()
        await other.close()


@run
async def test_a_redis_that_lost_its_streams_is_subscribed_again_and_listeners_learn_of_the_gap() -> None:
    with RedisServer("--appendonly", "no") as server:
        store, other = RedisStore(server.url), RedisStore(server.url)
        heard: list[bytes] = []
        lost: list[bytes] = []
        other.subscribe("news", heard.append)
        other.subscribe("", lost.append)
        await other.open()
        await store.publish("news", b"1")
        await until(lambda: heard == [b"1"])
        server.kill()
        server.start()
        # Its clock is later than that of the previous server: its ids precede those that were received already.
        server.ask("XADD", "dovetail:news", "1-1", "t", "news", "m", "2", "s", "other")
        await until(lambda: heard == [b"1", b"2"])
        assert lost == [b""]
        await store.close()
        await other.close()


@run
async def test_messages_trimmed_before_they_were_read_are_reported_as_lost() -> None:
    with RedisServer() as server:
        store = RedisStore(server.url)
        lost: list[bytes] = []
        store.subscribe("", lost.append)
        await store.publish("news", b"1")
        server.ask("CLIENT", "KILL", "TYPE", "normal")
        await store.put("a", b"1")
        # Its reader is back as well: one that came later would find the gap at once, and again after the second cut.
        await until(lambda: any("cmd=xread" in line for line in server.ask_all("CLIENT", "LIST")))
        assert lost == []
        script = (
            "redis.call('XADD',KEYS[1],'*','t','x','m','x','s','x');redis.call('XTRIM',KEYS[1],'MAXLEN',0)"
        )
        server.ask("EVAL", f'"{script}"', "1", "dovetail:news")
        server.ask("CLIENT", "KILL", "TYPE", "normal")
        await until(lambda: lost == [b""])
        await store.close()


@run
async def test_a_process_too_slow_for_the_messages_learns_that_some_were_lost() -> None:
    with RedisServer() as server:
        store, other = RedisStore(server.url), RedisStore(server.url)
        lost: list[bytes] = []
        heard: list[bytes] = []
        store.subscribe("", lost.append)
        store.subscribe("news", heard.append)
        await other.publish("news", b"first")
        await store.open()
        await other.publish("news", b"second")
        await until(lambda: heard == [b"second"])
        # All together, so that no read can happen in between; its connection stays.
        add = "redis.call('XADD', KEYS[1], 'MAXLEN', 50, '*', 't', 'news', 'm', number, 's', 'x')"
        script = f"for number = 1, 500 do {add} end"
        async with asyncio.timeout(HANG):
            client = redis.asyncio.Redis.from_url(server.url)
            await client.eval(script, 1, "dovetail:news")
            await until(lambda: b"500" in heard)
            await client.aclose()
        assert lost == [b""]
        assert heard[1:] == [str(number).encode() for number in range(451, 501)]
        await other.publish("news", b"last")
        await until(lambda: heard[-1] == b"last")
        assert lost == [b""]
        await store.close()
        await other.close()


@run
async def test_queued_messages_are_bounded_in_bytes() -> None:
    with RedisServer() as server:
        store = RedisStore(server.url)
        for _ in range(60):
            await store.publish("news", bytes(2 << 20))
        held = next(line for line in server.ask_all("INFO", "memory") if line.startswith("used_memory:"))
        assert int(held.partition(":")[2]) < 100 << 20
        with pytest.raises(StoreError, match="published message exceeds"):
            await store.publish("news", bytes((16 << 20) + 1))
        await store.close()


@run
async def test_a_frozen_redis_costs_a_bounded_time_and_a_write_that_was_repeated_is_done_once() -> None:
    with RedisServer() as server:
        store = RedisStore(server.url, timeout=1.5)
        await store.append("log", b"0", keep=100)
        server.freeze()
        asyncio.get_running_loop().call_later(2, server.thaw)
        await store.append("log", b"1", keep=100)
        assert await store.put("once", b"mine", only_new=True) is True
        assert [value for _, value in await store.scan("log")] == [b"0", b"1"]
        await store.close()


@pytest.mark.parametrize("cluster", [False, True])
@run
async def test_a_redis_that_stays_frozen_is_called_away_in_time(cluster: bool) -> None:
    with RedisServer(
        *(("--cluster-enabled", "yes", "--cluster-port", str(free_port())) if cluster else ())
    ) as server:
        if cluster:
            assert server.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383") == "OK"
            await until(lambda: server.ask("SET", "ready", "1") == "OK")
        store = RedisStore(f"redis+cluster://127.0.0.1:{server.port}" if cluster else server.url, timeout=0.3)
        await store.put("a/b", b"1")
        server.freeze()
        taken = Stopwatch()
        with pytest.raises(StoreUnavailable):
            await store.get("a/b")
        assert taken.read() < 1
        server.thaw()
        assert await store.get("a/b") == b"1"
        await store.close()


@run
async def test_a_redis_out_of_memory_refuses_and_is_well_again_with_more() -> None:
    with RedisServer() as server:
        store = RedisStore(server.url)
        await store.put("a", b"1")
        server.ask("CONFIG", "SET", "maxmemory", "1mb")
        with pytest.raises(StoreFull) as caught:
            await store.put("b", bytes(100_000))
        assert caught.value.kind == "storage_full"
        assert await store.get("a") == b"1"
        server.ask("CONFIG", "SET", "maxmemory", "0")
        await store.put("b", bytes(100_000))
        await store.close()


@run
async def test_a_store_of_a_newer_version_is_left_alone() -> None:
    with RedisServer() as server:
        server.ask("SET", "dovetail:version", "2")
        store = RedisStore(server.url)
        with pytest.raises(StoreUnreadable, match="newer"):
            await store.put("a", b"1")
        assert server.ask("GET", "dovetail:version") is not None
        await store.close()


@run
async def test_names_whose_values_are_over_do_not_pile_up() -> None:
    with RedisServer() as server:
        store = RedisStore(server.url)
        for number in range(200):
            await store.put(f"f/{number}", b"1", ttl=0.005)
        await store.put("f/last", b"1", ttl=60)
        size = server.ask("ZCARD", "dovetail:{f/}#index")
        assert size is not None
        assert int(size) < 100
        await store.close()


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(RedisStore("redis://user:secret@127.0.0.1:1/0"))


def test_urls_that_name_no_store_are_refused() -> None:
    for url in ("ftp://x", "sqlite://x", "sqlite:///", ""):
        with pytest.raises(DovetailError):
            from_url(url)
    with pytest.raises(ValueError, match="braces"):
        RedisStore("redis://127.0.0.1", prefix="a{b")


@run
async def test_a_cluster_of_three_spreads_folders_and_goes_on_without_one_of_them() -> None:
    with ExitStack() as stack:
        options = ("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
        nodes = [
            stack.enter_context(RedisServer(*options, "--cluster-port", str(free_port()))) for _ in range(3)
        ]
        buses = [int(node.ask_all("CONFIG", "GET", "cluster-port")[-1]) for node in nodes]
        for node, (first, last) in zip(nodes, ((0, 5460), (5461, 10922), (10923, 16383)), strict=True):
            assert node.ask("CLUSTER", "ADDSLOTSRANGE", str(first), str(last)) == "OK"
        for node, bus in zip(nodes[1:], buses[1:], strict=True):
            assert nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", str(node.port), str(bus)) == "OK"
        for node in nodes:
            await until(lambda node=node: "cluster_known_nodes:3" in node.ask_all("CLUSTER", "INFO"))
            await until(lambda node=node: "cluster_slots_assigned:16384" in node.ask_all("CLUSTER", "INFO"))
        store = RedisStore(
            "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes), timeout=1
        )
        for number in range(30):
            assert await store.put(f"folder{number}/a", b"x", only_new=True)
            assert await store.lease(f"folder{number}/a", "me", 60)
        held = [int(node.ask("DBSIZE") or 0) for node in nodes]
        assert min(held) > 10, "every node has a part"
        assert [await store.get(f"folder{number}/a") for number in range(30)] == [b"x"] * 30
        there = [n for n in range(30) if nodes[2].ask("EXISTS", f'"dovetail:{{folder{n}/}}a"') == "1"]
        elsewhere = next(number for number in range(30) if number not in there)
        nodes[2].kill()
        taken = Stopwatch()
        with pytest.raises(StoreUnavailable):
            await store.get(f"folder{there[0]}/a")
        assert taken.read() < 3
        assert await store.get(f"folder{elsewhere}/a") == b"x"
        await store.close()


@run
async def test_a_failover_by_a_sentinel_is_followed_and_what_reached_the_replica_is_there() -> None:
    with ExitStack() as stack:
        first = stack.enter_context(RedisServer())
        second = stack.enter_context(RedisServer("--replicaof", f"127.0.0.1 {first.port}"))
        await until(lambda: "master_link_status:up" in second.ask_all("INFO", "replication"))
        sentinel = stack.enter_context(
            RedisServer(
                f"sentinel monitor shop 127.0.0.1 {first.port} 1",
                "sentinel down-after-milliseconds shop 700",
                "sentinel failover-timeout shop 1000",
                sentinel=True,
            )
        )
        await until(lambda: "num-slaves" in sentinel.ask_all("SENTINEL", "MASTERS"))
        await until(lambda: str(second.port) in sentinel.ask_all("SENTINEL", "REPLICAS", "shop"))
        store = RedisStore(f"redis+sentinel://127.0.0.1:{sentinel.port}/shop/0", timeout=1)
        assert await store.put("a/kept", b"before")
        await until(lambda: second.ask("EXISTS", '"dovetail:{a/}kept"') == "1")
        first.kill()
        async with asyncio.timeout(HANG):
            while True:
                try:
                    assert await store.put("a/new", b"after")
                    break
                except StoreUnavailable:
                    continue  # each try takes its time
        assert await store.get("a/kept") == b"before"
        assert await store.get("a/new") == b"after"
        assert second.ask("EXISTS", '"dovetail:{a/}new"') == "1"
        await store.close()
