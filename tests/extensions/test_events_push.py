"""`events/stream`: confirmation, events, heartbeats, gaps, the end of a stream, and its bounds."""

import asyncio
import json
from pathlib import Path
from typing import Any

from dovetail import Client, Principal, Server, Timeouts
from dovetail.extensions import Event, EventBatch, Events
from dovetail.model.meta import SUBSCRIPTION_ID
from dovetail.stores import SqliteStore
from tests.support.aio import run
from tests.support.events import NAME, Incident, build, poll, refused, tokens
from tests.support.waiting import until
from tests.support.web import Connection, Site, Web, modern, modern_headers, served

ENDLESS = Timeouts(idle=None, total=None)
WAIT = {"heartbeat": 3600.0}


class Stream:
    """One stream over HTTP by hand: a POST, and the messages of its response."""

    def __init__(self, site: Site, params: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self.site = site
        self.message = modern("events/stream", {"name": NAME, **params})
        self.headers = modern_headers(self.message) | (headers or {})
        self.messages: list[dict[str, Any]] = []
        self.ended = False

    async def __aenter__(self) -> "Stream":
        self.connection: Connection = await self.site.connect()
        body = json.dumps(self.message).encode()
        head = {"Host": "localhost", "Content-Length": str(len(body)), **self.headers}
        lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        self.connection.writer.write("\r\n".join(lines).encode() + body)
        self._task = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        await self.connection.close()

    async def _read(self) -> None:
        while line := await self.connection.reader.readline():
            if line.startswith(b"data: "):
                self.messages.append(json.loads(line[6:]))
            elif line.startswith(b"{"):
                self.messages.append(json.loads(line))
        self.ended = True

    @property
    def methods(self) -> list[str]:
        return [one["method"].rpartition("/")[2] for one in self.messages if "method" in one]

    def params(self, name: str) -> list[dict[str, Any]]:
        return [one["params"] for one in self.messages if one.get("method", "").endswith("/" + name)]

    @property
    def numbers(self) -> list[int]:
        return [params["data"]["number"] for params in self.params("event")]

    async def got(self, name: str, count: int = 1) -> dict[str, Any]:
        await until(lambda: len(self.params(name)) >= count)
        return self.params(name)[count - 1]


@run
async def test_a_stream_confirms_and_then_sends_events_with_the_id_of_its_request() -> None:
    server, _, incidents = build(events=WAIT)
    async with served(server) as site, Stream(site, {}) as stream:
        active = await stream.got("active")
        assert active["truncated"] is False
        await incidents.emit(Incident(1), id="INC-1")
        event = await stream.got("event")
        assert (event["eventId"], event["name"], event["data"]["number"]) == ("INC-1", NAME, 1)
        assert {one["params"]["_meta"][SUBSCRIPTION_ID] for one in stream.messages} == {stream.message["id"]}
        assert stream.methods == ["active", "event"]


@run
async def test_a_stream_goes_on_after_a_cursor() -> None:
    server, _, incidents = build(events=WAIT)
    async with served(server) as site:
        async with Client(f"http://127.0.0.1:{site.port}/mcp") as client:
            start = (await poll(client))["cursor"]
        for number in range(250):
            await incidents.emit(Incident(number))
        async with Stream(site, {"cursor": start}) as stream:
            await stream.got("event", 250)
            middle = stream.params("event")[99]["cursor"]
            assert stream.numbers == list(range(250))
        async with Stream(site, {"cursor": middle}) as stream:
            await stream.got("event", 150)
            assert stream.numbers == list(range(100, 250))


@run
async def test_heartbeats_carry_the_cursor_past_events_for_others() -> None:
    server, _, incidents = build(events={"heartbeat": 0.02})
    async with served(server) as site:
        async with Stream(site, {"arguments": {"severity": "P9"}}) as stream:
            first = await stream.got("heartbeat")
            await incidents.emit(Incident(1))
            await until(lambda: stream.params("heartbeat")[-1]["cursor"] != first["cursor"])
            cursor = stream.params("heartbeat")[-1]["cursor"]
            assert stream.numbers == []
        async with Client(f"http://127.0.0.1:{site.port}/mcp") as client:
            assert (await poll(client, cursor))["events"] == []


@run
async def test_a_stale_cursor_is_answered_with_a_fresh_one_and_truncated() -> None:
    server, _, incidents = build(events=WAIT)
    async with served(server) as site, Stream(site, {"cursor": "made up"}) as stream:
        active = await stream.got("active")
        assert active["truncated"] is True
        await incidents.emit(Incident(1))
        await stream.got("event")


@run
async def test_a_request_that_is_not_valid_opens_no_stream() -> None:
    server, events, _ = build(events=WAIT)
    events.add("polled", delivery=["poll"])
    async with Client(server) as client:

        async def open(**params: Any) -> tuple[int, Any]:
            return await refused(client.request("events/stream", params))

        assert (await open(name="nothing"))[0] == -32023
        assert (await open(name="polled"))[0] == -32026
        assert (await open(name=NAME, arguments={"severity": []}))[0] == -32602


@run
async def test_the_server_ends_its_streams_in_order_when_it_stops() -> None:
    server, _, _ = build(events=WAIT)
    async with served(server) as site, Stream(site, {}) as stream:
        await stream.got("active")
        site.end()
        await until(lambda: stream.ended)
        assert stream.messages[-1]["result"]["resultType"] == "complete"
        assert stream.messages[-1]["result"]["_meta"][SUBSCRIPTION_ID] == stream.message["id"]


@run
async def test_a_client_that_goes_away_frees_its_stream() -> None:
    server, events, _ = build(events={**WAIT, "max_streams_per_principal": 1})
    async with served(server) as site:
        for _ in range(3):
            async with Stream(site, {}) as stream:
                await stream.got("active")
                assert events.streams == 1
            await until(lambda: events.streams == 0)


@run
async def test_streams_are_bounded_per_client_and_together() -> None:
    server, _, _ = build(events={**WAIT, "max_streams": 3, "max_streams_per_principal": 2}, auth=tokens)
    async with served(server) as site:

        def stream(token: str) -> Stream:
            return Stream(site, {}, {"Authorization": f"Bearer {token}"})

        async def error(token: str) -> tuple[int, int]:
            message = modern("events/stream", {"name": NAME})
            headers = modern_headers(message) | {"Authorization": f"Bearer {token}"}
            answer = await Web(site).ask("POST", headers, json.dumps(message).encode())
            return answer.message["error"]["code"], answer.message["error"]["data"]["max"]

        async with stream("a") as one, stream("a") as two:
            await one.got("active")
            await two.got("active")
            assert await error("a") == (-32025, 2)
            async with stream("b") as other:
                await other.got("active")
                assert await error("c") == (-32025, 3)


@run
async def test_lost_rights_end_a_stream_with_the_reason() -> None:
    allowed = True
    events = Events(heartbeat=0.02)
    incidents = events.add(NAME, payload=Incident, auth=lambda principal: allowed)
    async with served(Server("s", extensions=[events])) as site, Stream(site, {}) as stream:
        await stream.got("active")
        await incidents.emit(Incident(1))
        await stream.got("event")
        allowed = False
        await incidents.emit(Incident(2))
        error = (await stream.got("terminated"))["error"]
        assert error["code"] == -32024
        await until(lambda: stream.messages[-1].get("id") == stream.message["id"])
        assert stream.numbers == [1]


@run
async def test_a_token_that_expires_ends_the_stream() -> None:
    now = 1_800_000_000.0

    async def short(token: str, scope: Any) -> Principal:
        return Principal(token, claims={"exp": 1_800_000_100.0})

    server, _, _ = build(events={"heartbeat": 0.02}, auth=short, clock=lambda: now)
    async with served(server) as site, Stream(site, {}, {"Authorization": "Bearer a"}) as stream:
        await stream.got("heartbeat")
        now += 101
        await until(lambda: stream.messages[-1].get("id") == stream.message["id"])


@run
async def test_a_source_feeds_a_stream_and_its_failures_do_not_end_it() -> None:
    letters: list[str] = []
    fails = False

    async def read(arguments: Any, cursor: str | None, principal: Principal | None) -> EventBatch:
        if fails:
            raise OSError("closed")
        start = len(letters) if cursor is None else int(cursor)
        events = [
            Event(data={"number": place}, id=str(place), timestamp=0.0)
            for place in range(start, len(letters))
        ]
        return EventBatch(events=events, cursor=str(len(letters)))

    events = Events()
    events.add(NAME, source=read, poll_interval=0.01)
    async with served(Server("s", extensions=[events])) as site, Stream(site, {}) as stream:
        await stream.got("active")
        letters.append("one")
        await stream.got("event")
        fails = True
        assert (await stream.got("error"))["error"]["code"] == -32603
        fails = False
        letters.append("two")
        await stream.got("event", 2)
        assert stream.numbers == [0, 1]


@run
async def test_events_of_another_process_reach_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    here, _, _ = build(events={"heartbeat": 0.05}, store=SqliteStore(path))
    elsewhere, _, incidents = build(store=SqliteStore(path))
    async with served(here) as site, elsewhere.running(), Stream(site, {}) as stream:
        await stream.got("active")
        await incidents.emit(Incident(4))
        await stream.got("event")
        assert stream.numbers == [4]


@run
async def test_a_stream_works_on_a_pipe_and_is_cancelled_there() -> None:
    server, events, incidents = build(events=WAIT)
    heard: list[dict[str, Any]] = []
    async with Client(server) as client:
        client.add_notification("notifications/events/event", heard.append)
        one = asyncio.create_task(client.request("events/stream", {"name": NAME}, timeout=ENDLESS))
        await until(lambda: events.streams == 1)
        await incidents.emit(Incident(1))
        await until(lambda: heard)
        one.cancel()
        await asyncio.wait([one])
        await until(lambda: events.streams == 0)


@run
async def test_hooks_run_around_a_stream() -> None:
    seen: list[str] = []
    server, _, _ = build(
        {
            "on_subscribe": lambda arguments, principal: seen.append("on"),
            "on_unsubscribe": lambda arguments, principal: seen.append("off"),
        },
        WAIT,
    )
    async with served(server) as site:
        async with Stream(site, {}) as one, Stream(site, {}) as two:
            await one.got("active")
            await two.got("active")
            assert seen == ["on"]
        await until(lambda: seen == ["on", "off"])


@run
async def test_a_transport_without_a_stream_is_refused() -> None:
    server, _, _ = build()
    message = json.dumps(modern("events/stream", {"name": NAME})).encode()
    async with server.running():
        reply = json.loads(await server.handle(message) or b"")
    assert reply["error"]["message"] == "events/stream needs a stream; this transport has none"
