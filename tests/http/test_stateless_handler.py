"""2026-07-28 over HTTP: one POST and one response, ``subscriptions/listen``, disconnects."""

import asyncio
import json
from typing import Any

import pytest

from dovetail import Context
from dovetail.settings import Limits
from dovetail.transports.http.server.http_exchange import HTTP_TICK
from tests.support.aio import run
from tests.support.everything import build
from tests.support.rawclient import META, MODERN
from tests.support.schemas import validate
from tests.support.stopwatch import Stopwatch
from tests.support.waiting import HANG, until
from tests.support.web import Connection, Site, Web, modern, modern_headers, served, text


async def post(site: Site, message: dict[str, Any]) -> Connection:
    connection = await site.connect()
    connection.request("POST", "/mcp", modern_headers(message), json.dumps(message).encode())
    return connection


async def listen(site: Site, id: Any = "l", **wanted: Any) -> tuple[Connection, Any]:
    """An open listen stream, acknowledged."""
    connection = await post(site, modern("subscriptions/listen", {"notifications": wanted}, id=id))
    assert (await connection.head()).headers["content-type"] == "text/event-stream"
    events = connection.events()
    acknowledged = await data(events)
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"]["_meta"][f"{META}subscriptionId"] == id
    return connection, events


async def data(events: Any) -> dict[str, Any]:
    event = await anext(events)
    message = json.loads(event.data)
    validate(message, MODERN)
    return message


HANG_UPS = 5
"""How often it is tried: the machine may be busy with something else for once."""


@pytest.mark.parametrize("streaming", [False, True])
def test_hanging_up_cancels_within_a_tenth_of_a_second(streaming: bool) -> None:
    @run
    async def scenario() -> None:
        server = build()
        begun, over = asyncio.Event(), asyncio.Event()

        @server.tool
        async def work(ctx: Context) -> str:
            if streaming:
                await ctx.report_progress(1)
            begun.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                over.set()
            return ""

        async with served(server) as site:
            took: list[float] = []
            while len(took) < HANG_UPS and min(took, default=1.0) >= 0.1:
                begun.clear()
                over.clear()
                call = modern("tools/call", {"name": "work"}, meta={"progressToken": 1})
                connection = await post(site, call)
                await begun.wait()
                watch = Stopwatch()
                connection.writer.transport.abort()
                await over.wait()
                took.append(watch.read())
            assert min(took) < 0.1
            await until(lambda: not site.app.state.running)
            assert not site.app.stateless_handler.disconnects.requests
            assert not site.app.stateless_handler.disconnects.watches

    scenario()


@run
async def test_a_disconnect_during_a_call_cancels_it_before_the_next_tick() -> None:
    server = build()
    over = asyncio.Event()

    @server.tool
    async def work() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            over.set()
        return ""

    async with served(server) as site:
        took: list[float] = []
        while len(took) < HANG_UPS and min(took, default=1.0) >= HTTP_TICK / 2:
            over.clear()
            connection = await post(site, modern("tools/call", {"name": "work"}))
            await until(lambda: site.app.stateless_handler.disconnects.watches)
            watch = Stopwatch()
            connection.writer.transport.abort()
            await over.wait()
            took.append(watch.read())
        # The server probes after 50 ms whether the client has closed both directions.
        assert min(took) < HTTP_TICK / 2


@run
async def test_a_slow_call_of_a_patient_client_is_answered() -> None:
    server = build()

    ready = asyncio.Event()

    @server.tool
    async def slow() -> str:
        await ready.wait()
        return "here"

    async with served(server) as site, await post(site, modern("tools/call", {"name": "slow"})) as connection:
        await until(lambda: site.app.stateless_handler.disconnects.watches)
        ready.set()
        found = await connection.response()
        assert text(found.message["result"]) == "here"
        message = modern("tools/call", {"name": "slow"})  # the connection is still good
        found = await connection.ask("POST", "/mcp", modern_headers(message), json.dumps(message).encode())
        assert text(found.message["result"]) == "here"


@run
async def test_a_listen_stream_acknowledges_forwards_and_ends() -> None:
    server = build()
    async with served(server) as site:
        web = Web(site)
        tools, of_tools = await listen(site, 7, toolsListChanged=True)
        notes, of_notes = await listen(site, "seven", resourceSubscriptions=["notes://static"])
        await web.call("touch", uri="notes://static")
        await web.call("grow", name="new")
        note = await data(of_tools)
        assert note["method"] == "notifications/tools/list_changed"
        assert note["params"]["_meta"][f"{META}subscriptionId"] == 7
        note = await data(of_notes)
        assert note["method"] == "notifications/resources/updated"
        assert note["params"]["_meta"][f"{META}subscriptionId"] == "seven"
        tools.writer.transport.abort()
        await until(lambda: len(site.app.state.streams) == 1)
        await until(lambda: len(site.app.stateless_handler.listening) == 1)
        await notes.close()


@run
async def test_a_listen_stream_ends_with_its_result_when_the_server_does() -> None:
    async with served(build()) as site:
        streams = [await listen(site, id, toolsListChanged=True) for id in range(5)]
        site.end()
        for id, (connection, events) in enumerate(streams):
            result = await data(events)
            assert result["id"] == id
            validate(result, MODERN, method="subscriptions/listen")
            assert [event async for event in events] == []  # and a proper last chunk
            await connection.close()


@run
async def test_listen_streams_are_kept_alive_and_counted() -> None:
    async with served(build(limits=Limits(max_streams=1)), sse_ping_interval=0.03) as site:
        connection, _ = await listen(site, toolsListChanged=True)
        found = await Web(site).modern("subscriptions/listen", {"notifications": {}})
        assert found.status == 503
        assert "retry-after" in found.headers
        assert await connection.chunk() == b":\n\n"
        assert await connection.chunk() == b":\n\n"
        await connection.close()


@run
async def test_a_bad_filter_is_refused_before_anything_is_streamed() -> None:
    async with served(build()) as site:
        found = await Web(site).modern("subscriptions/listen", {"notifications": {"taskIds": ["a"]}})
        assert (found.status, found.message["error"]["code"]) == (400, -32021)
        found = await Web(site).modern("subscriptions/listen", {"notifications": 5})
        assert (found.status, found.message["error"]["code"]) == (200, -32602)
        assert not site.app.state.streams


@run
async def test_input_requests_come_back_with_the_result_and_are_answered_by_the_next_call() -> None:
    async with served(build()) as site:
        web = Web(site)
        params: dict[str, Any] = {"name": "pay", "arguments": {"order": "o"}}
        answers = {
            "sampling/createMessage": {
                "role": "assistant",
                "model": "m",
                "content": {"type": "text", "text": "yes"},
            },
            "roots/list": {"roots": []},
        }
        rounds = 0
        while (result := (await web.modern("tools/call", params)).message["result"])[
            "resultType"
        ] != "complete":
            rounds += 1
            responses = {key: answers[one["method"]] for key, one in result["inputRequests"].items()}
            params |= {"requestState": result["requestState"], "inputResponses": responses}
        assert (rounds, text(result)) == (2, "yes:1:0")


@run
async def test_a_result_larger_than_every_buffer_arrives_whole() -> None:
    server = build(limits=Limits(max_write_buffer_bytes=1000, max_replay_bytes_per_session=1000))

    @server.tool
    async def big(ctx: Context) -> str:
        await ctx.report_progress(1)
        return "x" * 3_000_000

    async with served(server) as site:
        web = Web(site)
        found = await web.modern("tools/call", {"name": "big"}, meta={"progressToken": 1})
        assert len(found.body) > 3_000_000
        session, _ = await web.initialize("2025-11-25")
        call = {"name": "big", "_meta": {"progressToken": 1}}
        found = await web.legacy("2025-11-25", session, "tools/call", call)
        assert len(found.body) > 3_000_000
        assert found.body.endswith(b"\n\n")


@run
async def test_a_client_that_never_reads_loses_its_stream_without_affecting_others() -> None:
    server = build(limits=Limits(max_write_buffer_bytes=20_000))
    async with served(server, write_timeout=0.3) as site:
        connection, _ = await listen(site, resourceSubscriptions=["notes://static"])
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        web = Web(site)
        meta = {"big": "x" * 50_000}
        async with asyncio.timeout(HANG):
            while site.app.state.streams:
                await server.notify_resource_updated("notes://static", meta)
                await asyncio.sleep(0)
        assert text(await web.call("shout", words="others")) == "OTHERS"
        await until(lambda: not site.app.stateless_handler.listening)
        connection.writer.transport.abort()


@run
async def test_sixty_four_connections_at_once() -> None:
    async with served(build()) as site:

        async def client(number: int) -> None:
            async with await site.connect() as connection:
                for turn in range(5):
                    words = f"{number}-{turn}"
                    message = modern("tools/call", {"name": "shout", "arguments": {"words": words}})
                    body = json.dumps(message).encode()
                    found = await connection.ask("POST", "/mcp", modern_headers(message), body)
                    assert found.message["id"] == message["id"]
                    assert text(found.message["result"]) == words

        await asyncio.gather(*(client(number) for number in range(64)))
