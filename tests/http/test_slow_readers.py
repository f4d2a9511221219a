"""Clients that do not read their responses cost bounded memory for a bounded time."""

import asyncio
import json
from typing import Any

import pytest
from attacks.on_websocket import HANDSHAKE, PING, TEXT, frame
from attacks.victim import http

from dovetail import Context, Server
from dovetail.settings import Limits
from tests.http.test_buffered_bytes import post
from tests.http.test_disconnects import narrow
from tests.support.aio import run
from tests.support.waiting import until
from tests.support.web import Site, Web, legacy_headers, modern, request, served

MESSAGES = 400


def deaf(writer: asyncio.StreamWriter) -> None:
    transport: Any = writer.transport
    transport.pause_reading()


@run
async def test_an_answer_that_is_not_taken_is_given_up_after_the_write_timeout() -> None:
    server = Server("unread")

    @server.tool
    async def big() -> str:
        return "x" * (12 << 20)

    async with served(server, write_timeout=0.5) as site:
        _, writer = await narrow(site)
        deaf(writer)
        writer.write(post(modern("tools/call", {"name": "big"})))
        await until(lambda: server.dispatcher.admission.shared.buffered_bytes.in_use > 0)
        await until(lambda: server.dispatcher.admission.shared.buffered_bytes.in_use == 0)
        writer.transport.abort()


BIG = {"name": "told", "arguments": {}}
"""A call whose answer comes at the end of an event stream, where there is one, and is large."""
WAYS = ("modern", "session", "stateless", "pair", "websocket")


async def ask(way: str, site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ask for much on one of the ways there are."""
    web, revision = Web(site), "2024-11-05" if way == "pair" else "2025-11-25"
    if way == "websocket":
        writer.write(http("GET", "/mcp", HANDSHAKE))
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(frame(TEXT, json.dumps(modern("tools/call", BIG)).encode()))
    elif way == "pair":
        writer.write(http("GET", "/sse", {"Content-Type": "", "Content-Length": ""}))
        path = (await reader.readuntil(b"\n\n")).partition(b"data: ")[2].decode().strip()
        start = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        for message in (request("initialize", start), request("tools/call", BIG)):
            body = json.dumps(message).encode()
            assert (await web.ask("POST", legacy_headers(None), body, path=path)).status == 202
    elif way == "modern":
        writer.write(post(modern("tools/call", BIG, meta={"progressToken": 1})))
    else:
        session = (await web.initialize(revision))[0] if way == "session" else None
        params = BIG | {"_meta": {"progressToken": 1}}
        headers = legacy_headers(revision, session)
        writer.write(http("POST", "/mcp", headers, json.dumps(request("tools/call", params)).encode()))


@pytest.mark.parametrize("way", WAYS)
def test_a_large_answer_that_is_not_taken_counts_on_every_way(way: str) -> None:
    @run
    async def scenario() -> None:
        server = Server("unread", limits=Limits(max_buffered_bytes=20 << 20))

        @server.tool(structured=False)
        async def told(ctx: Context) -> str:
            await ctx.report_progress(1)
            return "x" * (12 << 20)

        buffered = server.dispatcher.admission.shared.buffered_bytes

        async with served(server, stateless=way == "stateless") as site:
            reader, writer = await narrow(site)
            await ask(way, site, reader, writer)
            deaf(writer)
            await until(lambda: buffered.in_use > 12 << 20)
            other, asking = await asyncio.open_connection("127.0.0.1", site.port)
            await ask(way, site, other, asking)
            said = b""
            while b'"code":1004' not in said and b'"code":1069' not in said:
                said += await other.read(1 << 16)
                assert len(said) < 1 << 20
            assert buffered.in_use < 20 << 20
            writer.transport.abort()
            asking.transport.abort()
            await until(lambda: not buffered.in_use)

    scenario()


@run
async def test_a_stream_that_is_not_taken_stops_its_handler() -> None:
    server, said, ended = Server("unread"), list[int](), asyncio.Event()

    @server.tool
    async def chatter(ctx: Context) -> str:
        try:
            for number in range(MESSAGES):
                await ctx.report_progress(number, None, "x" * (64 << 10))
                said.append(number)
                await asyncio.sleep(0)  # a handler that never awaits cannot be cancelled
        finally:
            ended.set()
        return "said"

    message = modern("tools/call", {"name": "chatter"}, meta={"progressToken": 1})
    async with served(server, write_timeout=0.5) as site:
        _, writer = await narrow(site)
        deaf(writer)
        writer.write(post(message))
        await until(ended.is_set)
        assert 0 < len(said) < MESSAGES
        writer.transport.abort()


@run
async def test_pings_whose_pongs_are_not_taken_end_a_websocket() -> None:
    server = Server("unread")
    async with served(server, write_timeout=0.5) as site:
        reader, writer = await narrow(site)
        writer.write(http("GET", "/mcp", HANDSHAKE))
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        await until(lambda: site.app.state.sockets)
        deaf(writer)
        pings = frame(PING, b"x" * 125) * 500

        def flooded() -> bool:
            if writer.transport.get_write_buffer_size() < 1 << 18:  # type: ignore[attr-defined]
                writer.write(pings)
            return not site.app.state.sockets

        await until(flooded)
        writer.transport.abort()
