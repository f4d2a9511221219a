"""Cancelled calls that do not end still count as in flight, however their clients disconnected."""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from websockets.asyncio.client import connect

from dovetail import Context, Server
from dovetail.drivers.middleware_chain import Next, Request
from dovetail.middleware import Middleware
from dovetail.model.meta import IDEMPOTENCY_KEY
from dovetail.settings import Limits
from dovetail.stores import MemoryStore
from dovetail.transports import tcp
from tests.http.test_buffered_bytes import post
from tests.http.test_sse_transport import hear, initialize, open_pair, say
from tests.support.aio import run
from tests.support.waiting import until
from tests.support.web import Connection, Site, Web, legacy_headers, modern, request, served

NEWEST = "2025-11-25"
LINGER: dict[str, Any] = {"name": "linger", "arguments": {}}


class Stubborn:
    """A server whose handlers and middleware do not end when they are cancelled."""

    def __init__(self, store: MemoryStore | None = None, **limits: Any) -> None:
        limited = Limits(**limits)
        self.server = server = Server("stubborn", limits=limited, middleware=[Clearing(self)], store=store)
        self.begun = self.cancelled = self.ended = 0
        self.release = asyncio.Event()

        @server.tool
        async def linger() -> str:
            await self.work(asyncio.get_running_loop().create_future())
            return ""

    async def work(self, work: Awaitable[Any]) -> Any:
        self.begun += 1
        try:
            return await work
        finally:
            self.cancelled += 1
            await self.release.wait()
            self.ended += 1


class Clearing(Middleware):
    """Clean up after listen streams."""

    def __init__(self, stubborn: Stubborn) -> None:
        self.stubborn = stubborn

    async def subscribe(self, request: Request, call_next: Next) -> Any:
        return await self.stubborn.work(call_next(request))


async def by_deleting_the_session(site: Site, port: int, begun: Awaitable[None]) -> None:
    web = Web(site)
    session, _ = await web.initialize(NEWEST)
    connection = await site.connect()
    body = json.dumps(request("tools/call", LINGER)).encode()
    connection.request("POST", "/mcp", legacy_headers(NEWEST, session), body)
    await begun
    assert (await web.ask("DELETE", legacy_headers(NEWEST, session))).status == 204


async def by_cancelling_in_a_session(site: Site, port: int, begun: Awaitable[None]) -> None:
    web = Web(site)
    session, _ = await web.initialize(NEWEST)
    connection = await site.connect()
    body = json.dumps(request("tools/call", LINGER, id=1)).encode()
    connection.request("POST", "/mcp", legacy_headers(NEWEST, session), body)
    await begun
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    sent = await web.ask("POST", legacy_headers(NEWEST, session), json.dumps(cancel).encode())
    assert sent.status == 202


async def by_ending_a_stream_that_listens(site: Site, port: int, begun: Awaitable[None]) -> None:
    connection = await site.connect()
    connection.send(post(modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})))
    assert (await connection.head()).status == 200
    await begun
    connection.writer.transport.abort()


async def by_leaving_a_call_with_a_key(site: Site, port: int, begun: Awaitable[None]) -> None:
    connection = await dialled(site, port)
    message = modern("tools/call", LINGER, meta={IDEMPOTENCY_KEY: secrets.token_hex(4)})
    connection.send(json.dumps(message).encode() + b"\n")
    await begun
    await connection.close()


async def by_closing_the_stream(site: Site, port: int, begun: Awaitable[None]) -> None:
    connection, events, path = await open_pair(site)
    assert await say(site, path, initialize()) == 202
    await hear(events, "initialize")
    assert await say(site, path, request("tools/call", LINGER)) == 202
    await begun
    connection.writer.transport.abort()


async def by_closing_the_websocket(site: Site, port: int, begun: Awaitable[None]) -> None:
    async with connect(f"ws://127.0.0.1:{site.port}/mcp") as socket:
        await socket.send(json.dumps(modern("tools/call", LINGER)))
        await begun


async def dialled(site: Site, port: int) -> Connection:
    site.connections.append(Connection(*await asyncio.open_connection("127.0.0.1", port)))
    return site.connections[-1]


async def by_closing_tcp(site: Site, port: int, begun: Awaitable[None]) -> None:
    connection = await dialled(site, port)
    connection.send(json.dumps(modern("tools/call", LINGER)).encode() + b"\n")
    await begun
    await connection.close()


async def by_cancelling_over_tcp(site: Site, port: int, begun: Awaitable[None]) -> None:
    connection = await dialled(site, port)
    connection.send(json.dumps(modern("tools/call", LINGER, id=1)).encode() + b"\n")
    await begun
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    connection.send(json.dumps(cancel).encode() + b"\n")


WAYS = [
    by_deleting_the_session,
    by_cancelling_in_a_session,
    by_closing_the_stream,
    by_closing_the_websocket,
    by_closing_tcp,
    by_cancelling_over_tcp,
    by_ending_a_stream_that_listens,
    by_leaving_a_call_with_a_key,
]


async def over_tcp(port: int) -> dict[str, Any]:
    async with Connection(*await asyncio.open_connection("127.0.0.1", port)) as connection:
        connection.send(json.dumps(modern("tools/list")).encode() + b"\n")
        return json.loads(await connection.reader.readline())


@pytest.mark.parametrize("leave", WAYS)
@run
async def test_they_have_one_total_however_their_clients_have_left(
    leave: Callable[[Site, int, Awaitable[None]], Awaitable[None]],
) -> None:
    store = MemoryStore() if leave is by_leaving_a_call_with_a_key else None
    stubborn = Stubborn(store, max_concurrent_requests=2)
    listener = await tcp.listen(stubborn.server.dispatcher)
    port: int = listener.address[1]
    async with served(stubborn.server) as site:
        for number in (1, 2):
            assert "result" in await over_tcp(port)
            await leave(site, port, until(lambda number=number: stubborn.begun == number))
            await until(lambda number=number: stubborn.cancelled == number)
        assert (await over_tcp(port))["error"]["code"] == 1004
        refused = await Web(site).modern("tools/list")
        assert (refused.status, refused.message["error"]["code"]) == (503, 1004)
        stubborn.release.set()
        await until(lambda: stubborn.ended == 2)
        assert "result" in await over_tcp(port)
        assert (await Web(site).modern("tools/list")).status == 200
        assert stubborn.server.dispatcher.admission.shared.requests.in_use == 0
    await listener.close()


@run
async def test_calls_that_end_when_they_are_cancelled_take_nothing_from_others() -> None:
    server = Server("prompt", limits=Limits(max_concurrent_requests=1))

    @server.tool
    async def nap() -> None:
        await asyncio.get_running_loop().create_future()

    listener = await tcp.listen(server.dispatcher)
    lines: list[dict[str, Any]] = []
    for id in range(10):
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
        lines += [modern("tools/call", {"name": "nap"}, id=id), cancel]
    lines.append(modern("tools/list", id="last"))
    async with Connection(*await asyncio.open_connection("127.0.0.1", listener.address[1])) as connection:
        connection.send(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        answer = json.loads(await connection.reader.readline())
        assert (answer["id"], "result" in answer) == ("last", True)
    await listener.close()


@run
async def test_an_abandoned_call_keeps_its_place_though_its_stream_is_closed_by_the_server() -> None:
    server = Server("closing", limits=Limits(max_disconnected_calls=1))
    close, closed, release = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait(ctx: Context) -> str:
        await close.wait()
        await ctx.close_stream()
        closed.set()
        await release.wait()
        return "done"

    async with served(server) as site:
        session, _ = await Web(site).initialize(NEWEST)
        connection = await site.connect()
        message = request("tools/call", {"name": "wait", "arguments": {}})
        connection.send(post(message, **legacy_headers(NEWEST, session)))
        abandoned = server.dispatcher.admission.shared.disconnected_requests
        await until(lambda: site.app.state.disconnects.watches)
        connection.writer.transport.abort()
        await until(lambda: abandoned.in_use == 1)
        close.set()
        await closed.wait()
        assert abandoned.in_use == 1  # it runs without a client
        release.set()
        await until(lambda: abandoned.in_use == 0)


@run
async def test_calls_with_a_key_that_wait_for_a_lost_client_are_among_the_abandoned() -> None:
    stubborn = Stubborn(MemoryStore(), max_disconnected_calls=1)
    stubborn.release.set()
    abandoned = stubborn.server.dispatcher.admission.shared.disconnected_requests
    async with served(stubborn.server) as site:
        for number in (1, 2):
            connection = await site.connect()
            key = {IDEMPOTENCY_KEY: secrets.token_hex(4)}
            connection.send(post(modern("tools/call", LINGER, meta=key)))
            await until(lambda number=number: stubborn.begun == number)
            connection.writer.transport.abort()
            await until(lambda: abandoned.in_use == 1)
        await until(lambda: stubborn.ended == 1)  # the second: there was no place for it
        assert (stubborn.begun, abandoned.in_use) == (2, 1)
