"""Event streams of a session: general, interrupted, resumed."""

import asyncio
import json

from dovetail import Context, Server
from dovetail.settings import Limits
from tests.http.talk import NEWEST, data, stream
from tests.support.aio import run
from tests.support.everything import build
from tests.support.waiting import until
from tests.support.web import Web, legacy_headers, messages, request, served, text


@run
async def test_a_get_stream_brings_what_belongs_to_no_call_once() -> None:
    async with served(build()) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        first, older = await stream(site, session)
        priming = await anext(older)
        assert (priming.data, priming.retry) == (None, 1000)
        assert priming.id
        second, newer = await stream(site, session)
        await web.legacy(NEWEST, session, "tools/call", {"name": "grow", "arguments": {"name": "one"}})
        assert (await data(newer))["method"] == "notifications/tools/list_changed"
        await second.close()
        await until(lambda: len(site.app.state.streams) == 1)
        await web.legacy(NEWEST, session, "tools/call", {"name": "grow", "arguments": {"name": "two"}})
        assert (await data(older))["method"] == "notifications/tools/list_changed"
        await first.close()


@run
async def test_an_interrupted_stream_goes_on_where_it_was() -> None:
    server = build()
    told, go_on = asyncio.Event(), asyncio.Event()

    @server.tool
    async def story(ctx: Context) -> str:
        await ctx.info("one")
        told.set()
        await go_on.wait()
        await ctx.info("two")
        await ctx.info("three")
        return "the end"

    async with served(server) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        connection = await site.connect()
        body = json.dumps(request("tools/call", {"name": "story"}, id="s")).encode()
        connection.request("POST", "/mcp", legacy_headers(NEWEST, session), body)
        await connection.head()
        events = connection.events()
        priming, one = await anext(events), await anext(events)
        assert priming.data is None
        await connection.close()
        again, live = await stream(site, session, **{"Last-Event-ID": one.id})
        go_on.set()  # resumed before the rest is said: the tail comes live
        assert [(await data(live))["params"]["data"] for _ in range(2)] == ["two", "three"]
        assert text((await data(live))["result"]) == "the end"
        assert [event async for event in live] == []
        await again.close()
        late, replayed = await stream(site, session, **{"Last-Event-ID": priming.id})
        said = [json.loads(event.data) async for event in replayed if event.data]
        assert [one["params"]["data"] for one in said[:-1]] == ["one", "two", "three"]
        assert said[-1]["id"] == "s"
        await late.close()


@run
async def test_close_stream_ends_the_response_and_not_the_call() -> None:
    server = build()

    @server.tool
    async def slow(ctx: Context) -> str:
        await ctx.close_stream()
        return "done"

    async with served(server, sse_retry_ms=7) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        found = await web.legacy(NEWEST, session, "tools/call", {"name": "slow"}, id="x")
        assert found.body.startswith(b"id: ")
        assert b"retry: 7\n" in found.body
        id = found.body.split(b"\n")[0].removeprefix(b"id: ").decode()
        again, events = await stream(site, session, **{"Last-Event-ID": id})
        assert (await data(events))["id"] == "x"
        await again.close()


@run
async def test_ids_of_other_sessions_and_lost_events_are_refused() -> None:
    async with served(build(limits=Limits(max_replay_events=2))) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        other, _ = await web.initialize(NEWEST)
        call = {"name": "count", "_meta": {"progressToken": 1}}
        found = await web.legacy(NEWEST, session, "tools/call", call)
        ids = [
            line.removeprefix("id: ") for line in found.body.decode().split("\n") if line.startswith("id: ")
        ]
        await web.legacy(NEWEST, other, "tools/call", call)
        assert len(ids) == 5
        for bad in (*ids[:2], "1.1", "x", "", ids[4].replace(".4", ".5"), ids[4][::-1]):
            headers = legacy_headers(NEWEST, session) | {"Last-Event-ID": bad}
            assert (await web.ask("GET", headers)).status == 400, bad
        assert (await web.ask("GET", legacy_headers(NEWEST, other) | {"Last-Event-ID": ids[3]})).status == 400
        found = await web.ask("GET", legacy_headers(NEWEST, session) | {"Last-Event-ID": ids[2]})
        assert [("result" in one) for one in messages(found.body)] == [False, True]


@run
async def test_what_all_sessions_keep_is_bounded() -> None:
    limits = Limits(max_replay_bytes=2000)
    async with served(build(limits=limits)) as site:
        web = Web(site)
        for _ in range(8):
            session, _ = await web.initialize(NEWEST)
            call = {"name": "count", "arguments": {"steps": 5}, "_meta": {"progressToken": 1}}
            await web.legacy(NEWEST, session, "tools/call", call)
        ledger = site.app.session_handler.sessions.event_budget
        assert 0 < ledger.total <= 2000
        site.app.session_handler.sessions.close()
        assert ledger.total == 0


@run
async def test_a_session_that_never_listened_keeps_nothing() -> None:
    server = build()
    async with served(server) as site:
        await Web(site).initialize(NEWEST)
        server.add_tool(lambda: "x", name="new")
        (entry,) = site.app.session_handler.sessions
        assert entry.log is None


@run
async def test_keep_alive_comments_and_too_many_streams() -> None:
    async with served(build(limits=Limits(max_streams=2)), sse_ping_interval=0.05) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        connections = [(await stream(site, session))[0] for _ in range(2)]
        refused = await web.ask("GET", legacy_headers(NEWEST, session))
        assert refused.status == 503
        assert "retry-after" in refused.headers
        chunks = [await connections[0].chunk() for _ in range(3)]
        assert chunks[1:] == [b":\n\n", b":\n\n"]
        for connection in connections:
            await connection.close()


@run
async def test_get_needs_a_client_that_reads_events() -> None:
    async with served(build()) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        headers = legacy_headers(NEWEST, session) | {"Accept": "application/json"}
        assert (await web.ask("GET", headers)).status == 406


@run
async def test_the_server_is_the_same_for_a_tool_that_fails_in_the_middle_of_a_stream() -> None:
    server = Server("s")

    @server.tool
    async def half(ctx: Context) -> str:
        await ctx.info("so far")
        raise KeyError("secret")

    async with served(server) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        found = await web.legacy(NEWEST, session, "tools/call", {"name": "half"})
        note, result = messages(found.body)
        assert note["method"] == "notifications/message"
        assert result["result"]["isError"] is True
        assert "secret" not in str(result)


@run
async def test_the_log_keeps_the_events_of_a_stream_and_not_its_response() -> None:
    server = build()

    @server.tool
    async def tell(ctx: Context) -> str:
        await ctx.info("one")
        return "the end"

    async with served(server) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        for _ in range(3):
            await web.legacy(NEWEST, session, "tools/call", {"name": "tell"})
        (entry,) = site.app.session_handler.sessions
        await until(lambda: not site.app.state.streams)
        assert entry.log is not None
        kept = [stream for stream in entry.log.streams.values() if stream.kept]
        assert len(kept) == 3
        assert [stream.sinks for stream in kept] == [[], [], []]
