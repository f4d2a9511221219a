"""A program's own event store is told of every event, and asked when a client comes back for what it missed."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from msgspec.structs import replace

from dovetail.compat.fastmcp import FastMCP
from dovetail.compat.fastmcp.server.event_store import EventStore as KeyedStore
from dovetail.compat.mcp.server.fastmcp import Context
from dovetail.compat.mcp.server.fastmcp import FastMCP as SdkFastMCP
from dovetail.compat.mcp.server.lowlevel import Server
from dovetail.compat.mcp.server.streamable_http import EventMessage, EventStore
from dovetail.compat.mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from tests.http.talk import NEWEST, begin, data, stream
from tests.support.aio import run
from tests.support.web import Site, Web, legacy_headers, served, text


class Kept(EventStore):
    """Keeps all there is, and marks what it gives back."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, Any]] = []
        self.asked: list[str] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        await asyncio.sleep(0)
        self.events.append((f"event-{len(self.events)}", stream_id, message))
        return self.events[-1][0]

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        self.asked.append(last_event_id)
        ids = [id for id, _, _ in self.events]
        if last_event_id not in ids:
            return None
        place = ids.index(last_event_id)
        stream = self.events[place][1]
        for id, other, message in self.events[place + 1 :]:
            if other == stream and message is not None:
                told = message.model_copy(deep=True)
                if told.root.model_dump().get("method") == "notifications/message":
                    told.root.params["data"] += ", kept"
                await send_callback(EventMessage(told, id))
        return stream


def teller(store: Any, **options: Any) -> tuple[SdkFastMCP[Any], asyncio.Event, asyncio.Event]:
    mcp: SdkFastMCP[Any] = SdkFastMCP("teller", event_store=store, **options)
    told, go_on = asyncio.Event(), asyncio.Event()

    @mcp.tool()
    async def story(ctx: Context) -> str:
        await ctx.info("one")
        told.set()
        await go_on.wait()
        await ctx.info("two")
        await ctx.info("three")
        return "the end"

    return mcp, told, go_on


async def said(events: Any) -> list[str]:
    found: list[str] = []
    async for event in events:
        if event.data:
            message = json.loads(event.data)
            found.append(message["params"]["data"] if "params" in message else text(message["result"]))
    return found


async def begun(site: Site) -> tuple[str, Any, Any, Any]:
    """A session in which a story is told: the connection is cut after the first event."""
    session, _ = await Web(site).initialize(NEWEST)
    connection, events = await begin(site, session, "story")
    priming, one = await anext(events), await anext(events)
    return session, connection, priming, one


@run
async def test_what_a_client_missed_is_asked_of_the_store() -> None:
    store = Kept()
    mcp, _, go_on = teller(store)
    async with served(mcp.native) as site:
        session, connection, priming, one = await begun(site)
        await connection.close()
        go_on.set()
        late, replayed = await stream(site, session, **{"Last-Event-ID": one.id})
        assert await said(replayed) == ["two, kept", "three, kept", "the end"]
        await late.close()
        whole, replayed = await stream(site, session, **{"Last-Event-ID": priming.id})
        assert await said(replayed) == ["one, kept", "two, kept", "three, kept", "the end"]
        await whole.close()
    assert len(store.asked) == 2
    streams = {name for _, name, _ in store.events}
    assert len(streams) == 1
    assert [message is None for _, _, message in store.events] == [True, False, False, False, False]


@run
async def test_the_rest_of_a_resumed_stream_comes_as_it_is_said() -> None:
    store = Kept()
    mcp, _, go_on = teller(store)
    async with served(mcp.native) as site:
        session, connection, priming, _ = await begun(site)
        await connection.close()
        again, live = await stream(site, session, **{"Last-Event-ID": priming.id})
        assert (await data(live))["params"]["data"] == "one, kept"
        go_on.set()
        assert await said(live) == ["two", "three", "the end"]
        await again.close()


@run
async def test_a_store_that_keeps_more_than_ours_gives_more() -> None:
    store = Kept()
    mcp, _, go_on = teller(store)
    mcp.native.limits = replace(mcp.native.limits, events=1)
    async with served(mcp.native) as site:
        session, connection, priming, _ = await begun(site)
        go_on.set()
        await connection.close()
        other, _ = await Web(site).initialize(NEWEST)
        refused = await Web(site).ask("GET", legacy_headers(NEWEST, other) | {"Last-Event-ID": priming.id})
        assert refused.status == 400  # somebody else's
        late, replayed = await stream(site, session, **{"Last-Event-ID": priming.id})
        found = await said(replayed)
        assert [one.removesuffix(", kept") for one in found] == ["one", "two", "three", "the end"]
        await late.close()


@run
async def test_a_store_that_fails_takes_nothing_from_clients(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Kept):
        async def store_event(self, stream_id: str, message: Any) -> str:
            raise OSError("the disk is full")

    caplog.set_level(logging.WARNING)
    mcp, _, go_on = teller(Broken())
    async with served(mcp.native) as site:
        session, connection, _, one = await begun(site)
        await connection.close()
        go_on.set()
        late, replayed = await stream(site, session, **{"Last-Event-ID": one.id})
        assert await said(replayed) == ["two", "three", "the end"]
        await late.close()
    assert "event_store= failed" in caplog.text


class KeyValues:
    """A key-value store that FastMCP's `EventStore` may be given."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], dict[str, Any]] = {}

    async def get(self, key: str, *, collection: str) -> dict[str, Any] | None:
        return self.entries.get((collection, key))

    async def put(
        self, key: str, value: dict[str, Any], *, collection: str, ttl: float | None = None
    ) -> None:
        self.entries[collection, key] = json.loads(json.dumps(value))

    async def delete(self, key: str, *, collection: str) -> None:
        del self.entries[collection, key]


@run
async def test_fastmcps_own_store_writes_to_what_it_was_given() -> None:
    values = KeyValues()
    mcp, _, go_on = teller(KeyedStore(values, max_events_per_stream=4))
    async with served(mcp.native) as site:
        session, connection, priming, one = await begun(site)
        await connection.close()
        go_on.set()
        late, replayed = await stream(site, session, **{"Last-Event-ID": one.id})
        assert await said(replayed) == ["two", "three", "the end"]
        await late.close()
        # The store was told to keep four events of a stream: the first one is gone.
        refused = await Web(site).ask("GET", legacy_headers(NEWEST, session) | {"Last-Event-ID": priming.id})
        assert refused.status == 400
    assert len([key for key in values.entries if key[0] == "fastmcp_events"]) == 4


@run
async def test_whoever_takes_a_store_has_it_asked() -> None:
    fast, low = FastMCP("resumed"), Server("resumed")
    fast.http_app(event_store=Kept())
    assert fast.native.event_history is not None
    async with StreamableHTTPSessionManager(low, event_store=Kept()).run():
        assert low.native.event_history is not None
