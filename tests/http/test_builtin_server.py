"""The built-in HTTP/1.1 server, over raw sockets."""

import asyncio
import gc
import json
import socket
from pathlib import Path

import pytest

from dovetail import Context, RouteRequest, RouteResponse, Server
from dovetail.settings import Limits
from dovetail.transports.http.server.builtin_exchange import BuiltinExchange
from dovetail.transports.http.server.builtin_server import HttpConnection
from tests.support.aio import run
from tests.support.certificates import Authority
from tests.support.everything import build
from tests.support.waiting import until
from tests.support.web import Connection, Site, Web, messages, modern, modern_headers, served, text
from tests.support.web import Response as Answer

MESSAGE = modern("tools/call", {"name": "shout", "arguments": {"words": "one"}})
HEADERS = modern_headers(MESSAGE)
BODY = json.dumps(MESSAGE).encode()


def written(target: str = "/mcp", version: str = "1.1", body: bytes = BODY, **more: str) -> bytes:
    """A request as it goes over the wire."""
    headers = {"Host": "127.0.0.1", "Content-Length": str(len(body)), **HEADERS, **more}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"POST {target} HTTP/{version}\r\n{lines}\r\n".encode() + body


@run
async def test_requests_that_come_together_are_answered_one_after_the_other() -> None:
    async with served(build()) as site, await site.connect() as connection:
        many = [modern("tools/call", {"name": "shout", "arguments": {"words": str(n)}}) for n in range(50)]
        connection.send(b"".join(written(body=json.dumps(one).encode()) for one in many))
        for number in range(50):
            assert text((await connection.response()).message["result"]) == str(number)


def calling(name: str, **arguments: object) -> bytes:
    message = modern("tools/call", {"name": name, "arguments": arguments})
    return written(body=json.dumps(message).encode(), **{"Mcp-Name": name})


def exchanges(kind: type = BuiltinExchange) -> int:
    return sum(
        issubclass(type(one), kind) for one in gc.get_objects()
    )  # dead weak proxies raise in isinstance


@run
async def test_of_ten_thousand_requests_that_come_together_few_are_held() -> None:
    server, begun, go_on = Server("slow"), asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> str:  # pyright: ignore[reportUnusedFunction]
        begun.set()
        await go_on.wait()
        return "done"

    async with served(server) as site, await site.connect() as connection:
        connection.send(calling("wait") + b"GET / HTTP/1.1\r\n\r\n" * 10_000)
        await begun.wait()
        assert exchanges() < 300
        go_on.set()
        assert text((await connection.response()).message["result"]) == "done"
        for _ in range(10_000):
            assert (await connection.response()).status == 404
        assert (await connection.ask("GET", "/livez", {})).status == 200


@run
async def test_a_client_that_reads_no_answers_is_not_read_from() -> None:
    server, called = Server("large"), 0

    @server.tool
    async def large() -> str:  # pyright: ignore[reportUnusedFunction]
        nonlocal called
        called += 1
        return "x" * 100_000

    async with served(server) as site, await site.connect() as honest, await site.connect() as deaf:
        deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
        deaf.send(calling("large") * 1_000)
        for _ in range(1_000):
            assert (await honest.ask("GET", "/livez", {})).status == 200
        assert called < 500
        deaf.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(1_000):
            assert (await deaf.response()).status == 200
        assert called == 1_000


@pytest.mark.parametrize(
    "data",
    [
        written()[:-1],
        b"POST /none HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n",
        written(Transfer_Encoding="chunked").replace(b"Content-Length", b"X"),
        calling("wait", key="k"),
    ],
    ids=["in its body", "without a body", "in a broken body", "in a call"],
)
@run
async def test_a_client_that_disconnects_during_a_request_leaves_no_state(data: bytes) -> None:
    gc.collect()
    gc.disable()
    before = exchanges()  # whatever another file has left in this process
    try:
        async with served(build()) as site:
            async with await site.connect() as connection:
                connection.send(data)
                await until(lambda: exchanges() > before)
            await until(lambda: exchanges() <= before)
    finally:
        gc.enable()


def test_a_tls_connection_leaves_no_resources(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    file = str(authority.certificate("127.0.0.1"))

    @run
    async def scenario() -> None:
        gc.collect()
        gc.disable()
        before = exchanges(HttpConnection)
        try:
            async with served(build(), certfile=file, keyfile=file) as site:
                async with await site.connect(ssl=authority.client()) as connection:
                    assert (await connection.ask("GET", "/livez", {})).status == 200
                await until(lambda: exchanges(HttpConnection) <= before)
        finally:
            gc.enable()

    scenario()


@run
async def test_a_long_call_leaves_no_state() -> None:
    server, go_on = Server("slow"), asyncio.Event()

    @server.tool
    async def wait() -> str:  # pyright: ignore[reportUnusedFunction]
        await go_on.wait()
        return "done"

    gc.collect()
    gc.disable()
    before = exchanges()
    try:
        async with served(server) as site, await site.connect() as connection:
            connection.send(calling("wait"))
            await until(lambda: site.app.state.disconnects.watches)
            go_on.set()
            assert (await connection.response()).status == 200
            await until(lambda: exchanges() <= before)
    finally:
        gc.enable()


@pytest.mark.parametrize("tail", [b"X: " + b"x" * 1_000_000, b"X: y\r\n" * 200_000], ids=["one", "many"])
@run
async def test_trailers_without_an_end_are_refused(tail: bytes) -> None:
    async with (
        served(build(limits=Limits(max_header_bytes=10_000))) as site,
        await site.connect() as connection,
    ):
        head = written().partition(b"\r\n\r\n")[0].replace(b"Content-Length: %d\r\n" % len(BODY), b"")
        connection.send(head + b"\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n" % (len(BODY), BODY))
        connection.send(tail)
        found = await connection.response()
        assert (found.status, found.headers["connection"]) == (400, "close")
        assert await connection.at_end()


@run
async def test_a_whole_url_is_a_target_too() -> None:
    async with served(build()) as site, await site.connect() as connection:
        connection.send(written("http://127.0.0.1/mcp"))
        assert text((await connection.response()).message["result"]) == "ONE"
        connection.send(written("/%6dcp"))
        assert text((await connection.response()).message["result"]) == "ONE"


@run
async def test_an_upgrade_with_a_body_is_refused_and_one_without_is_not_made() -> None:
    async with served(build()) as site:
        async with await site.connect() as connection:
            connection.send(written(Connection="Upgrade", Upgrade="h2c"))
            assert (await connection.response()).status == 400
            assert await connection.at_end()
        async with await site.connect() as connection:
            connection.send(
                b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nmore"
            )
            assert (await connection.response()).status == 200
            assert await connection.at_end()


@run
async def test_an_older_client_reads_to_the_end() -> None:
    async with served(build()) as site, await site.connect() as connection:
        connection.send(written(version="1.0"))
        found = await connection.response()
        assert (text(found.message["result"]), found.headers["connection"]) == ("ONE", "close")
        assert await connection.at_end()


@pytest.mark.parametrize("framing", ["X: y", "Transfer-Encoding: chunked"])
@run
async def test_an_older_client_is_not_disconnected_and_gets_no_messages_in_between(framing: str) -> None:
    async with served(build()) as site, await site.connect() as connection:
        head = written(version="1.0", Connection="keep-alive", Expect="100-continue").partition(b"\r\n\r\n")[
            0
        ]
        body = BODY
        if "chunked" in framing:
            head, body = head.replace(b"Content-Length", b"X"), b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
        connection.send(head + f"\r\n{framing}\r\n\r\n".encode())
        await until(exchanges)
        connection.send(body + written())
        found = await connection.response()
        assert (found.status, found.headers["connection"]) == (200, "close")
        assert await connection.at_end()


@pytest.mark.parametrize("codings", ["gzip, chunked", "identity\r\nTransfer-Encoding: chunked"])
@run
async def test_a_body_in_another_coding_is_refused(codings: str) -> None:
    async with served(build()) as site, await site.connect() as connection:
        head = written(Transfer_Encoding=codings).partition(b"\r\n\r\n")[0].replace(b"Content-Length", b"X")
        connection.send(head + b"\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY) + written())
        found = await connection.response()
        assert (found.status, found.headers["connection"]) == (400, "close")
        assert await connection.at_end()


@run
async def test_what_is_said_to_be_closed_is_closed() -> None:
    async with served(build(limits=Limits(max_header_bytes=10_000))) as site:
        async with await site.connect() as connection:
            connection.send(written(X="x" * 9_000, Y="y" * 9_000))
            assert (await connection.response()).status == 431
            assert await connection.at_end()
        async with await site.connect() as connection:  # the limit also holds after another request
            connection.send(written() + written(X="x" * 9_000, Y="y" * 9_000))
            assert (await connection.response()).status == 200
            assert (await connection.response()).status == 431
            assert await connection.at_end()


@run
async def test_an_answer_that_may_have_no_body_has_none() -> None:
    server = build()

    @server.route("/empty")
    async def empty(_: RouteRequest) -> RouteResponse:  # pyright: ignore[reportUnusedFunction]
        return RouteResponse("more", 204)

    async with served(server) as site, await site.connect() as connection:
        assert (await connection.ask("GET", "/empty", {})).status == 204
        assert (await connection.ask("GET", "/livez", {})).body == b"alive\n"


@run
async def test_a_head_has_no_body() -> None:
    async with served(build()) as site, await site.connect() as connection:
        connection.send(b"HEAD /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + written())
        assert (await connection.head()).status == 200
        assert text((await connection.response()).message["result"]) == "ONE"


@run
async def test_one_connection_too_many_gets_503_and_is_closed() -> None:
    async with served(build(), max_connections=2) as site:
        for _ in range(2):
            assert (await (await site.connect()).ask("GET", "/livez", {})).status == 200
        refused = await site.connect()
        response = await refused.response()
        assert (response.status, response.headers["retry-after"]) == (503, "5")
        assert await refused.at_end()
        await site.connections[0].close()
        await until(lambda: len(site.app.state.running) == 0)
        assert text(await Web(site).call("shout", words="again")) == "AGAIN"


@run
async def test_of_many_connections_at_once_no_more_are_accepted_than_allowed() -> None:
    async with served(build(), max_connections=3) as site:
        sockets = [socket.create_connection(site.address) for _ in range(40)]  # before the server accepts any
        for one in sockets:
            one.sendall(written())  # unread bytes must not reset the connection
        many = [Connection(*await asyncio.open_connection(sock=one)) for one in sockets]
        statuses = [(await connection.response()).status for connection in many]
        assert (statuses.count(200), statuses.count(503)) == (3, 37)
        for connection in many:
            await connection.close()


@run
async def test_an_idle_connection_is_closed() -> None:
    async with served(build(), keep_alive_timeout=0.2) as site, await site.connect() as connection:
        connection.send(written())
        assert (await connection.response()).status == 200
        assert await connection.at_end()


@pytest.mark.parametrize("sent", [b"", b"POST /mcp HTTP/1.1\r\nHost: loc"])
def test_a_header_block_that_does_not_end_closes_the_connection(sent: bytes) -> None:
    @run
    async def scenario() -> None:
        async with served(build(), header_timeout=0.2) as site, await site.connect() as connection:
            connection.send(sent)
            assert await connection.at_end()
        serving = served(build(), header_timeout=0.2, keep_alive_timeout=600)
        async with serving as site, await site.connect() as connection:
            connection.send(written())
            assert (await connection.response()).status == 200
            connection.send(sent or b"P")
            assert await connection.at_end()

    scenario()


@run
async def test_http_2_is_refused_with_one_answer() -> None:
    async with served(build()) as site, await site.connect() as connection:
        connection.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
        refused = await connection.response()
        assert refused.status == 505
        assert b"reverse proxy" in refused.body
        assert await connection.at_end()


async def half_closed(site: Site, data: bytes) -> Connection:
    """A connection that sent ``data`` and closed its sending side."""
    connection = await site.connect()
    connection.send(data)
    connection.writer.write_eof()
    return connection


async def final(connection: Connection) -> Answer:
    """The next response that is not an interim one."""
    while (found := await connection.response()).status == 100:
        pass
    return found


def waiting() -> tuple[Server, asyncio.Event, list[str]]:
    """A server with tools that wait, and how their calls ended."""
    server, go_on, ended = Server("waiting"), asyncio.Event(), list[str]()

    @server.tool
    async def wait(ctx: Context, notes: bool = False) -> str:  # pyright: ignore[reportUnusedFunction]
        try:
            if notes:
                await ctx.report_progress(1)
            await go_on.wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        ended.append("done")
        return "done"

    return server, go_on, ended


@run
async def test_a_client_that_only_closed_its_sending_side_gets_all_responses() -> None:
    server, go_on, ended = waiting()
    async with served(server) as site, await half_closed(site, calling("wait") * 3) as connection:
        assert (await connection.head()).status == 100  # a closed socket would answer this with a reset
        go_on.set()
        for _ in range(3):
            assert text((await final(connection)).message["result"]) == "done"
        assert await connection.at_end()
    assert ended == ["done"] * 3


@run
async def test_a_client_that_only_closed_its_sending_side_gets_its_event_stream() -> None:
    server, go_on, ended = waiting()
    message = modern(
        "tools/call", {"name": "wait", "arguments": {"notes": True}}, meta={"progressToken": "p"}
    )
    async with (
        served(server) as site,
        await half_closed(
            site, written(body=json.dumps(message).encode(), **{"Mcp-Name": "wait"})
        ) as connection,
    ):
        while (found := await connection.head()).status == 100:
            pass
        assert found.headers["content-type"] == "text/event-stream"
        assert b"notifications/progress" in await connection.chunk()
        assert await connection.chunk() == b":\n\n"
        go_on.set()
        body = b""
        while chunk := await connection.chunk():
            body += chunk
        assert [text(one["result"]) for one in messages(body)] == ["done"]
        assert await connection.at_end()
    assert ended == ["done"]


@pytest.mark.parametrize("notes", [False, True])
def test_a_call_is_cancelled_when_its_client_closes_the_connection(*, notes: bool) -> None:
    @run
    async def scenario() -> None:
        server, _, ended = waiting()
        arguments = {"name": "wait", "arguments": {"notes": notes}}
        message = modern("tools/call", arguments, meta={"progressToken": "p"})
        async with served(server) as site:
            async with await site.connect() as connection:
                connection.send(written(body=json.dumps(message).encode(), **{"Mcp-Name": "wait"}))
                await until(lambda: site.app.state.disconnects.watches)
                if notes:
                    await connection.head()
                    await connection.chunk()
            await until(lambda: ended == ["cancelled"])

    scenario()


@pytest.mark.parametrize("framing", ["Content-Length: 500", "Transfer-Encoding: chunked"])
@run
async def test_a_body_that_ends_too_early_gets_400(framing: str) -> None:
    head = written().partition(b"\r\n\r\n")[0].replace(b"Content-Length: %d" % len(BODY), framing.encode())
    async with (
        served(build()) as site,
        await half_closed(site, head + b"\r\n\r\n5\r\nhello") as connection,
    ):
        found = await final(connection)
        assert (found.status, found.headers["connection"]) == (400, "close")
        assert await connection.at_end()
