"""The HTTP+SSE transport of 2024-11-05."""

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Server
from dovetail.settings import Limits, Timeouts
from dovetail.stores import SqliteStore
from tests.support.aio import run
from tests.support.everything import build
from tests.support.schemas import validate
from tests.support.waiting import until
from tests.support.web import Connection, Site, Web, request, served, text

REVISION = "2024-11-05"
JSON = {"Content-Type": "application/json"}


async def open_pair(site: Site, **headers: str) -> tuple[Connection, Any, str]:
    connection = await site.connect()
    connection.request("GET", "/sse", {"Accept": "text/event-stream"} | headers)
    head = await connection.head()
    assert (head.status, head.headers["content-type"]) == (200, "text/event-stream")
    events = connection.events()
    first = await anext(events)
    assert first.event == "endpoint"
    return connection, events, first.data.decode()


async def say(site: Site, path: str, message: Any, **headers: str) -> int:
    found = await Web(site).ask("POST", JSON | headers, json.dumps(message).encode(), path=path)
    assert found.status != 202 or found.body == b""
    return found.status


async def hear(events: Any, method: str | None = None) -> dict[str, Any]:
    event = await anext(events)
    assert event.event == "message"
    validate(event.data, REVISION, method=method)
    return json.loads(event.data)


def initialize() -> dict[str, Any]:
    info = {"name": "c", "version": "1"}
    return request(
        "initialize", {"protocolVersion": REVISION, "capabilities": {"sampling": {}}, "clientInfo": info}
    )


@run
async def test_everything_the_server_says_comes_on_the_stream() -> None:
    async with served(build()) as site:
        connection, events, path = await open_pair(site)
        assert path.startswith("/messages?session_id=")
        assert await say(site, path, initialize()) == 202
        assert (await hear(events, "initialize"))["result"]["protocolVersion"] == REVISION
        assert await say(site, path, {"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202
        assert await say(site, path, request("tools/call", {"name": "think"}, id="t")) == 202
        question = await hear(events)
        assert question["method"] == "sampling/createMessage"
        content = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "so"}}
        assert await say(site, path, {"jsonrpc": "2.0", "id": question["id"], "result": content}) == 202
        answer = await hear(events, "tools/call")
        assert (answer["id"], text(answer["result"])) == ("t", "so")
        await connection.close()
        await until(lambda: not site.app.state.streams)
        assert await say(site, path, request("ping")) == 404


def listening(**options: Any) -> Server:
    server = Server("shop", "1", **options)

    @server.tool
    def heard(ctx: Context) -> str:
        found = dict(ctx.scope["headers"])
        said = [found.get(name, b"").decode() for name in (b"x-always", b"x-once", b"authorization")]
        return f"{ctx.scope['transport']}: {' '.join(said)}"

    return server


@run
async def test_headers_of_one_call_reach_that_call() -> None:
    async with (
        served(listening()) as site,
        Client(f"http://127.0.0.1:{site.port}/sse", headers={"X-Always": "a"}) as client,
    ):
        for headers in ({"X-Once": "b"}, None, {"X-Once": "c", "X-Always": "d"}):
            wanted = {"X-Always": "a", "X-Once": ""} | (headers or {})
            found = await client.call_tool("heard", headers=headers)
            assert found.text == f"sse: {wanted['X-Always']} {wanted['X-Once']} "


@run
async def test_headers_reach_the_process_that_has_the_stream_but_tokens_are_not_sent_there(
    tmp_path: Path,
) -> None:
    letters: list[bytes] = []

    class Heard(SqliteStore):
        async def publish(self, topic: str, message: bytes) -> None:
            letters.append(message)
            await super().publish(topic, message)

    stores = [Heard(tmp_path / "state.db") for _ in range(2)]
    async with served(listening(store=stores[0])) as first, served(listening(store=stores[1])) as second:
        connection, events, path = await open_pair(first, Authorization="Bearer opened")
        assert await say(second, path, initialize()) == 202
        await hear(events, "initialize")
        assert await say(second, path, {"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202
        more = {"X-Once": "b", "Authorization": "Bearer secret", "Cookie": "secret"}
        assert await say(second, path, request("tools/call", {"name": "heard"}), **more) == 202
        assert text((await hear(events, "tools/call"))["result"]) == "sse:  b Bearer opened"
        await connection.close()
    assert any(b"x-once" in letter for letter in letters)
    assert not any(b"secret" in letter for letter in letters)


@run
async def test_posts_that_cannot_be_taken() -> None:
    def who(scope: Any) -> str | None:
        return dict(scope["headers"]).get(b"x-user", b"").decode() or None

    async with served(build(limits=Limits(max_message_bytes=1000)), principal=who) as site:
        web = Web(site)
        connection, events, path = await open_pair(site, **{"X-User": "ada"})
        assert await say(site, path, request("ping")) == 404  # another principal
        assert await say(site, "/messages?session_id=x", request("ping"), **{"X-User": "ada"}) == 404
        assert await say(site, "/messages", request("ping")) == 404
        user = {"X-User": "ada"}
        assert (await web.ask("POST", user | {"Content-Type": "text/plain"}, b"{}", path=path)).status == 415
        packed = user | JSON | {"Content-Encoding": "gzip"}
        assert (await web.ask("POST", packed, b"{}", path=path)).status == 415
        assert (await web.ask("POST", user | JSON, b" " * 1001, path=path)).status == 413
        assert (await web.ask("GET", user, path=path)).status == 405
        assert (await web.ask("POST", user, b"{}", path="/sse")).status == 405
        assert (await web.ask("GET", user | {"Accept": "application/json"}, path="/sse")).status == 406
        await say(site, path, initialize(), **user)
        await hear(events, "initialize")
        assert (await web.ask("POST", user | JSON, b"rubbish", path=path)).status == 202
        assert json.loads((await anext(events)).data)["error"]["code"] == -32700
        await connection.close()


@run
async def test_the_pair_can_be_switched_off_and_is_counted() -> None:
    async with served(build(), sse_path=None) as site:
        assert (await Web(site).ask("GET", {}, path="/sse")).status == 404
    async with served(build(limits=Limits(max_streams=1))) as site:
        await open_pair(site)
        assert (await Web(site).ask("GET", {}, path="/sse")).status == 503


@run
async def test_the_stream_ends_properly_when_the_server_does() -> None:
    async with served(build()) as site:
        _, events, path = await open_pair(site)
        await say(site, path, initialize())
        await hear(events)
        site.end()
        assert [event async for event in events] == []


def test_a_client_has_to_begin_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.drivers.heartbeat.INITIALIZE_SECONDS", 1.0)

    @run
    async def scenario() -> None:
        async with served(build()) as site:
            used, heard, path = await open_pair(site)
            assert await say(site, path, initialize()) == 202
            await hear(heard, "initialize")
            unused, events, forgotten = await open_pair(site)
            assert [event async for event in events if event.data] == []
            assert await say(site, forgotten, initialize()) == 404
            assert await say(site, path, request("ping", None, id=7)) == 202
            assert (await hear(heard))["id"] == 7
            for one in (used, unused):
                await one.close()

    scenario()


def test_an_idle_client_gets_a_ping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dovetail.drivers.heartbeat.PING_TIMEOUTS", Timeouts(connect=None, idle=None, total=1.0)
    )

    @run
    async def scenario() -> None:
        async with served(build(), session_ping_interval=0.1) as site:
            connection, events, path = await open_pair(site)
            assert await say(site, path, initialize()) == 202
            await hear(events, "initialize")
            for _ in range(2):
                question = await hear(events)
                assert question["method"] == "ping"
                answer = {"jsonrpc": "2.0", "id": question["id"], "result": {}}
                assert await say(site, path, answer) == 202
            assert (await hear(events))["method"] == "ping"
            rest = [json.loads(event.data)["method"] async for event in events if event.data]
            assert rest == ["notifications/cancelled"]
            assert await say(site, path, initialize()) == 404
            await connection.close()

    scenario()
