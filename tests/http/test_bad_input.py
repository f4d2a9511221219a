"""Broken, slow or hostile clients get their documented response and do not affect other clients."""

import asyncio
import gc
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dovetail.settings import Limits
from tests.support.aio import run
from tests.support.everything import build
from tests.support.held import held
from tests.support.waiting import until
from tests.support.web import BOTH, Web, legacy_headers, modern, modern_headers, request, served, text

NEWEST = "2025-11-25"


def resident() -> int:
    """Bytes of memory this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@run
async def test_a_body_that_never_comes_is_408() -> None:
    async with served(build(), body_timeout=0.1) as site:
        message = modern("tools/list")
        headers = modern_headers(message)
        sizes: list[int] = []
        for _ in range(4):
            slow = []
            for beginning in (b"", b"{"):
                connection = await site.connect()
                connection.request("POST", "/mcp", headers | {"Content-Length": "100"})
                connection.send(beginning)
                slow.append(connection)
            assert text(await Web(site).call("shout", words="others")) == "OTHERS"
            for connection in slow:
                found = await connection.response()
                assert (found.status, found.headers["connection"]) == (408, "close")
                assert found.message["error"]["code"] == 1069
                assert await connection.at_end()
            sizes.append(held(site.app))
        assert sizes[-1] < sizes[0] + 600  # a table may keep a few empty slots


@run
async def test_a_body_that_trickles_in_time_is_read() -> None:
    async with served(build()) as site, await site.connect() as connection:
        message = modern("tools/call", {"name": "shout", "arguments": {"words": "drop"}})
        body = json.dumps(message).encode()
        connection.request("POST", "/mcp", modern_headers(message) | {"Content-Length": str(len(body))})
        for position in range(0, len(body), 40):
            connection.send(body[position : position + 40])
            await connection.writer.drain()
            await asyncio.sleep(0)
        assert text((await connection.response()).message["result"]) == "DROP"


@pytest.mark.parametrize("beginning", [b"", b"POST /mcp HTTP/1.1\r\nHost: loc"])
def test_a_head_that_never_ends_is_cut_off(beginning: bytes) -> None:
    @run
    async def scenario() -> None:
        async with served(build(), header_timeout=0.2) as site, await site.connect() as connection:
            connection.send(beginning)
            assert await connection.at_end()
            assert text(await Web(site).call("shout", words="others")) == "OTHERS"

    scenario()


@run
async def test_a_head_that_grows_without_an_end_is_431() -> None:
    async with (
        served(build(limits=Limits(max_header_bytes=10_000))) as site,
        await site.connect() as connection,
    ):
        connection.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n")
        for number in range(11):
            connection.send(b"X-%d: %s\r\n" % (number, b"x" * 1000))
        assert (await connection.head()).status == 431
        assert await connection.at_end()


@pytest.mark.parametrize("chunked", [False, True])
def test_the_next_head_of_a_connection_has_to_end_too(chunked: bool) -> None:
    message = modern("tools/call", {"name": "shout", "arguments": {"words": "first"}})
    body = json.dumps(message).encode()
    first = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(len(body))}
    if chunked:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)

    @run
    async def scenario() -> None:
        limits = Limits(max_header_bytes=10_000)
        async with served(build(limits=limits), header_timeout=0.5) as site:
            for rest in (b"X-More: ", b"X-More: %s\r\n" % (b"x" * 1000) * 1000):
                connection = await site.connect()
                connection.request("POST", "/mcp", modern_headers(message) | first)
                connection.send(body)
                assert text((await connection.response()).message["result"]) == "FIRST"
                connection.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + rest)
                with suppress(ConnectionError):
                    assert (await connection.reader.read())[:13] in (b"", b"HTTP/1.1 431 ")

    scenario()


@run
async def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_nothing() -> None:
    async with served(build()) as site:
        headers = modern_headers(modern("tools/list")) | {"Content-Length": "100", "Expect": "100-continue"}
        before = held(site.app)
        for _ in range(10):
            connection = await site.connect()
            connection.request("POST", "/mcp", headers)
            assert (await connection.head()).status == 100  # the body is awaited
            connection.send(b'{"jsonrpc"')
            connection.writer.transport.abort()
        await until(lambda: held(site.app) < before + 1000)  # a table may keep a few empty slots


@pytest.mark.parametrize(
    "head",
    [
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1x\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nMcp-Name: a\x00b\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nMcp Name: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
    ],
)
def test_what_is_not_http_is_400_and_closed(head: bytes, caplog: pytest.LogCaptureFixture) -> None:
    @run
    async def scenario() -> None:
        async with served(build()) as site, await site.connect() as connection:
            connection.send(head)
            found = await connection.response()
            assert found.status in (400, 415)
            assert (await Web(site).call("shout", words="x"))["content"]

    scenario()
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


@run
async def test_more_body_than_declared_is_not_taken_for_a_second_request() -> None:
    async with served(build()) as site, await site.connect() as connection:
        message = modern("tools/list")
        connection.request("POST", "/mcp", modern_headers(message), json.dumps(message).encode())
        connection.send(b"}}} and more\r\n\r\n")
        statuses = [(await connection.response()).status]
        while not connection.reader.at_eof() and statuses[-1] == 200:
            statuses.append((await connection.response()).status)
        assert statuses in ([200, 400], [400])
        assert await connection.at_end()


@run
async def test_requests_sent_without_waiting_are_answered_in_order() -> None:
    async with served(build()) as site, await site.connect() as connection:
        for id in range(10):
            message = modern("tools/call", {"name": "shout", "arguments": {"words": str(id)}}, id=id)
            connection.request("POST", "/mcp", modern_headers(message), json.dumps(message).encode())
        for id in range(10):
            found = await connection.response()
            assert (found.message["id"], text(found.message["result"])) == (id, str(id))


@run
async def test_nothing_a_client_says_comes_back_in_a_header() -> None:
    async with served(build()) as site:
        web = Web(site)
        evil = "x\tSet-Cookie: a=b"
        for headers in (
            legacy_headers(NEWEST, evil),
            legacy_headers(NEWEST) | {"Last-Event-ID": evil, "Origin": "http://localhost"},
            modern_headers(modern("tools/list")) | {"Mcp-Name": evil, "Mcp-Param-X": evil},
        ):
            for method in ("POST", "GET", "DELETE"):
                found = await web.ask(method, headers, b"{}")
                assert "Cookie" not in str(found.headers)


class Caller:
    """Calls an app without a socket, for tests that need tens of thousands of requests."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(
        self, method: str, headers: dict[str, str], body: bytes = b""
    ) -> tuple[int, dict[bytes, bytes]]:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        raw.append((b"host", b"localhost"))
        scope = {"type": "http", "method": method, "path": "/mcp", "headers": raw, "server": ("127.0.0.1", 1)}
        await self.app(scope, receive, send)
        return sent[0]["status"], dict(sent[0]["headers"])


@run
async def test_large_heads_that_never_come_twice_are_not_remembered() -> None:
    app = build().asgi()
    call, message = Caller(app), modern("tools/list")
    body, headers = json.dumps(message).encode(), modern_headers(message)
    assert (await call("POST", headers, body))[0] == 200
    before = held(app)
    for number in range(100):
        strange = headers | {"Accept": f"{BOTH}, {number}/{'x' * 20_000}"}
        assert (await call("POST", strange, body))[0] == 200
    assert held(app) < before + 100_000
    await app.drain(0)


@pytest.mark.parametrize("failure", [ConnectionResetError(), RuntimeError("the handler is closed")])
def test_an_unexpected_response_is_not_an_error(failure: Exception) -> None:
    @run
    async def scenario() -> None:
        app = build().asgi()
        message = modern("tools/list")
        body, headers = json.dumps(message).encode(), modern_headers(message)

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            raise failure  # as uvloop does for a connection that has just ended

        for path in ("/mcp", "/livez", "/nothing"):
            raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
            scope = {"type": "http", "method": "POST", "path": path, "server": ("127.0.0.1", 1)}
            await app({**scope, "headers": [*raw, (b"host", b"localhost")]}, receive, send)
        await app.drain(0)

    scenario()


@run
async def test_ten_thousand_clients_that_initialize_and_vanish_leave_memory_flat() -> None:
    server = build(limits=Limits(max_sessions=500))
    app = server.asgi()
    call = Caller(app)
    info = {"name": "vanishing", "version": "1"}
    body = json.dumps(
        request("initialize", {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": info})
    ).encode()
    headers = legacy_headers(None)
    for count in range(10_000):
        status, answered = await call("POST", headers, body)
        assert status == 200
        if count == 3000:
            gc.collect()
            before, objects = resident(), len(gc.get_objects())
            early = answered[b"mcp-session-id"].decode()
    gc.collect()
    assert len(gc.get_objects()) - objects < 1000
    assert resident() - before < 16 << 20  # sessions that stayed would take 50 and more
    assert len(app.app.session_handler.sessions) == 500
    # One of the first is long out of memory, and still served.
    assert (await call("POST", legacy_headers(NEWEST, early), json.dumps(request("ping")).encode()))[0] == 200
    await app.drain(0)


@run
async def test_ten_thousand_requests_with_foreign_ids_keep_nothing() -> None:
    app = build().asgi()
    call = Caller(app)
    body = json.dumps(request("ping")).encode()
    await call("POST", legacy_headers(NEWEST, "v1.0.x.y"), body)  # the server starts with its first request
    before = held(app.app.session_handler.sessions)
    for number in range(10_000):
        assert (await call("POST", legacy_headers(NEWEST, f"v1.{number}.x.y"), body))[0] == 404
    assert len(app.app.session_handler.sessions) == 0
    assert held(app.app.session_handler.sessions) <= before + 1000
    await app.drain(0)


@run
async def test_a_flood_of_get_streams_is_bounded_and_calls_are_still_answered() -> None:
    async with served(build(limits=Limits(max_streams=20))) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        connections = []
        statuses = []
        for _ in range(60):
            connection = await site.connect()
            connection.request("GET", "/mcp", legacy_headers(NEWEST, session))
            statuses.append((await connection.head()).status)
            connections.append(connection)
        assert set(statuses) <= {200, 503}
        assert len(site.app.state.streams) <= 20
        (entry,) = site.app.session_handler.sessions
        assert entry.log is not None
        assert len(entry.log.general.sinks) <= 9  # of one session; the oldest made room
        assert text(await web.call("shout", words="others")) == "OTHERS"
        for connection in connections:
            connection.writer.transport.abort()
        await until(lambda: not site.app.state.streams)
        assert entry.open_streams == 0


@run
async def test_fifty_broken_clients_at_once_do_not_disturb_one_that_works() -> None:
    async with served(build(), body_timeout=1) as site:
        web = Web(site)

        async def broken(number: int) -> None:
            connection = await site.connect()
            match number % 5:
                case 0:
                    connection.send(b"rubbish\r\n\r\n")
                case 1:
                    connection.request(
                        "POST", "/mcp", {"Content-Type": "application/json", "Accept": BOTH}, b"[" * 9000
                    )
                case 2:
                    connection.request(
                        "POST", "/mcp", legacy_headers(NEWEST, "x" * 3000), b'{"jsonrpc":"2.0"}'
                    )
                case 3:
                    connection.request(
                        "POST", "/mcp", modern_headers(modern("tools/list")) | {"Content-Length": "5"}
                    )
                case _:
                    connection.request("GET", "/mcp", {"Upgrade": "h2c", "Connection": "Upgrade"})
            if number % 2:
                connection.writer.transport.abort()

        await asyncio.gather(*(broken(number) for number in range(50)))
        for _ in range(20):
            assert text(await web.call("shout", words="fine")) == "FINE"


@run
async def test_a_principal_that_cannot_be_identified_is_refused() -> None:
    from dovetail.errors import ProtocolError

    def who(scope: Any) -> str | None:
        if b"authorization" not in dict(scope["headers"]):
            raise ProtocolError("invalid_token", "say who you are")
        return "ada"

    async with served(build(), principal=who) as site:
        web = Web(site)
        message = modern("tools/list")
        body = json.dumps(message).encode()
        for _ in range(2):
            assert (await web.ask("POST", modern_headers(message), body)).status == 401
        assert (await web.ask("GET", legacy_headers(NEWEST, "x"))).status == 401
        assert (await web.ask("GET", {"Accept": BOTH}, path="/sse")).status == 401
        allowed = await web.ask("POST", modern_headers(message) | {"Authorization": "x"}, body)
        assert allowed.status == 200
