"""Two changes of one session at once, in one process or in two: each holds, whichever is written first."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from dovetail import Server
from dovetail.cluster.stored_sessions import storage_name
from dovetail.stores import SqliteStore, StoreUnavailable
from tests.http.talk import NEWEST, data, stream
from tests.support.aio import run
from tests.support.waiting import HANG
from tests.support.web import Web, served

STOCK, OTHER = "shop://stock", "shop://other"


class Waiting(SqliteStore):
    """Delay the write of a session's first subscription, and fail it on request."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.reached, self.go = asyncio.Event(), asyncio.Event()
        self.fails = False

    async def put(self, key: str, value: bytes, **options: Any) -> bool:
        if key.startswith("session/") and STOCK.encode() in value and not self.reached.is_set():
            self.reached.set()
            await self.go.wait()
            if self.fails:
                raise StoreUnavailable("cut off")
        return await super().put(key, value, **options)


class Holding(SqliteStore):
    """Hold back messages of some topics until they are released."""

    def __init__(self, path: Path, held: str) -> None:
        super().__init__(path)
        self._held = held
        self.go, self.waiting = asyncio.Event(), asyncio.Event()
        self.go.set()

    async def publish(self, topic: str, message: bytes) -> None:
        if topic.startswith(self._held) and not self.go.is_set():
            self.waiting.set()
            await self.go.wait()
        await super().publish(topic, message)


def shop(store: SqliteStore) -> Server:
    server = Server("shop", store=store)

    @server.resource(STOCK)
    async def stock() -> str:
        return "42"

    @server.tool
    async def sell() -> str:
        await server.notify_resource_updated(STOCK)
        return "sold"

    @server.tool
    async def tell() -> str:
        await server.notify_resource_updated(OTHER)
        return "told"

    return server


@pytest.mark.parametrize("where", ["here", "elsewhere"])
@run
async def test_a_subscription_holds_though_a_stream_was_opened_while_it_was_written(
    tmp_path: Path, where: str
) -> None:
    store = Waiting(tmp_path / "s.db")
    async with served(shop(store)) as first, served(shop(SqliteStore(store.path))) as second:
        session, _ = await Web(first).initialize(NEWEST)
        subscribing = asyncio.create_task(
            Web(first).legacy(NEWEST, session, "resources/subscribe", {"uri": STOCK})
        )
        await store.reached.wait()
        connection, events = await stream(first if where == "here" else second, session)
        store.go.set()
        assert (await subscribing).status == 200
        await Web(first).legacy(NEWEST, session, "tools/call", {"name": "sell", "arguments": {}})
        async with asyncio.timeout(HANG):
            assert (await data(events))["params"]["uri"] == STOCK
        await connection.close()


@run
async def test_a_change_that_cannot_be_written_takes_no_other_one_back(tmp_path: Path) -> None:
    store = Waiting(tmp_path / "s.db")
    store.fails = True
    async with served(shop(store)) as site:
        session, _ = await Web(site).initialize(NEWEST)
        subscribing = asyncio.create_task(
            Web(site).legacy(NEWEST, session, "resources/subscribe", {"uri": STOCK})
        )
        await store.reached.wait()
        connection, events = await stream(site, session)
        store.go.set()
        assert "error" in (await subscribing).message
        # The stream was opened meanwhile, and still receives the notifications of the session.
        await Web(site).legacy(NEWEST, session, "resources/subscribe", {"uri": STOCK})
        await Web(site).legacy(NEWEST, session, "tools/call", {"name": "sell", "arguments": {}})
        async with asyncio.timeout(HANG):
            assert (await data(events))["params"]["uri"] == STOCK
        await connection.close()


@run
async def test_a_session_that_a_newer_version_knows_more_of_can_be_changed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    async with served(shop(store)) as first, served(shop(SqliteStore(store.path))) as second:
        session, _ = await Web(first).initialize(NEWEST)
        key = f"session/{storage_name(session)}/state"
        kept = await store.get(key)
        assert kept is not None
        await store.put(key, kept[:-1] + b',"more":[1,2]}')
        # The first has it in memory as it was, the second reads it now.
        for site, uri in ((first, STOCK), (second, "shop://other")):
            answer = await Web(site).legacy(NEWEST, session, "resources/subscribe", {"uri": uri})
            assert answer.message["result"] == {}
        assert STOCK.encode() in (await store.get(key) or b"")


@run
async def test_changes_before_a_new_subscription_is_known_to_the_streams_process_are_sent(
    tmp_path: Path,
) -> None:
    store = Holding(tmp_path / "s.db", "mail/")
    async with served(shop(store)) as first, served(shop(SqliteStore(store.path))) as second:
        session, _ = await Web(first).initialize(NEWEST)
        connection, events = await stream(second, session)
        store.go.clear()
        answer = await Web(first).legacy(NEWEST, session, "resources/subscribe", {"uri": STOCK})
        assert answer.status == 200
        await Web(second).legacy(NEWEST, session, "tools/call", {"name": "sell", "arguments": {}})
        await store.waiting.wait()  # the second has not heard of the subscription
        store.go.set()
        async with asyncio.timeout(HANG):
            assert (await data(events))["params"]["uri"] == STOCK
        await connection.close()


@run
async def test_changes_during_a_stream_move_are_sent_on_the_new_stream(tmp_path: Path) -> None:
    store = Holding(tmp_path / "s.db", "news/")
    async with served(shop(store)) as first, served(shop(SqliteStore(store.path))) as second:
        session, _ = await Web(first).initialize(NEWEST)
        connection, _ = await stream(second, session)
        await Web(first).legacy(NEWEST, session, "resources/subscribe", {"uri": STOCK})
        store.go.clear()
        # The news has not left the process when the stream comes to it.
        await Web(first).legacy(NEWEST, session, "tools/call", {"name": "sell", "arguments": {}})
        await store.waiting.wait()
        moved, events = await stream(first, session)
        store.go.set()
        async with asyncio.timeout(HANG):
            assert (await data(events))["params"]["uri"] == STOCK
        await connection.close()
        await moved.close()


async def update(events: Any) -> tuple[str, str]:
    """The URI and the event id of the next update on a stream."""
    async for event in events:
        if event.data:
            return json.loads(event.data)["params"]["uri"], event.id
    raise AssertionError("the stream has ended")


@pytest.mark.parametrize("resumed", [True, False])
@run
async def test_a_stream_that_moves_repeats_nothing_that_was_sent(resumed: bool, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    async with served(shop(store)) as first, served(shop(SqliteStore(store.path))) as second:
        session, _ = await Web(first).initialize(NEWEST)
        for uri in (STOCK, OTHER):
            await Web(first).legacy(NEWEST, session, "resources/subscribe", {"uri": uri})
        last: dict[str, str] = {}
        for number, site in enumerate([second, first, second, first, second]):
            connection, events = await stream(site, session, **last)
            # Nothing that an earlier stream has sent comes before the change of this one.
            tool, changed = (("sell", STOCK), ("tell", OTHER))[number % 2]
            seller = (first, first, second, second, first)[number]
            await Web(seller).legacy(NEWEST, session, "tools/call", {"name": tool, "arguments": {}})
            async with asyncio.timeout(HANG):
                uri, id = await update(events)
            assert (number, uri) == (number, changed)
            last = {"Last-Event-ID": id} if resumed else {}
            await connection.close()
