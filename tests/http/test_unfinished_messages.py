"""Unfinished WebSocket messages have a size limit and a time limit."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from attacks.on_websocket import CONTINUATION, HANDSHAKE, TEXT, frame, message
from attacks.victim import Wire, http

from dovetail import Server
from dovetail.settings import Limits
from tests.support.aio import run
from tests.support.waiting import HANG, until
from tests.support.web import Site, modern, served

LARGE = 3 << 20


@asynccontextmanager
async def connected(site: Site) -> AsyncIterator[Wire]:
    wire = Wire(*await asyncio.open_connection("127.0.0.1", site.port))
    try:
        yield wire
    finally:
        wire.drop()
        await wire.closed(1)


async def upgrade(wire: Wire) -> None:
    wire.send(http("GET", "/mcp", HANDSHAKE))
    assert b" 101 " in await wire.reader.readuntil(b"\r\n\r\n")


@asynccontextmanager
async def dial(site: Site) -> AsyncIterator[Wire]:
    async with connected(site) as wire:
        await upgrade(wire)
        yield wire


def kept(server: Server) -> int:
    return server.dispatcher.admission.shared.buffered_bytes.in_use


def pieces(data: bytes) -> bytes:
    """One message in many frames."""
    cut = [data[at : at + 60_000] for at in range(0, len(data), 60_000)]
    first, *rest = cut
    return b"".join(
        [frame(TEXT, first, last=False), *(frame(CONTINUATION, one, last=one is rest[-1]) for one in rest)]
    )


@run
async def test_the_newest_connection_over_the_total_is_refused_and_closed() -> None:
    server = Server("unfinished", limits=Limits(max_buffered_bytes=LARGE * 3 // 2))
    async with served(server) as site, dial(site) as old, dial(site) as new, dial(site) as quiet:
        call = json.dumps(modern("server/discover")).encode()
        whole = pieces(call + b" " * LARGE)
        old.send(whole[:-1])
        await until(lambda: kept(server) >= LARGE)
        new.send(frame(TEXT, b" " * LARGE)[:-1])
        # RFC 6455, 7.4.1 and its registry: 1013 is "try again later".
        assert (await new.reader.readexactly(4))[2:] == (1013).to_bytes(2, "big")
        assert await new.closed(HANG)
        quiet.send(frame(TEXT, call))
        assert "result" in json.loads(await message(quiet))
        old.send(whole[-1:])
        assert "result" in json.loads(await message(old))
        await until(lambda: kept(server) == 0)


@run
async def test_a_message_that_takes_longer_than_a_body_may_is_given_up() -> None:
    server = Server("unfinished")
    async with served(server, body_timeout=0.5) as site, dial(site) as wire:
        wire.send(frame(TEXT, b" " * LARGE)[:-1])
        assert await wire.closed(HANG)
        await until(lambda: kept(server) == 0)


@run
async def test_what_is_whole_is_not_counted_however_much_it_is() -> None:
    server = Server("unfinished", limits=Limits(max_buffered_bytes=2 * LARGE))
    async with served(server, body_timeout=1.0) as site, dial(site) as wire:
        clock = asyncio.get_running_loop().time
        begun, sent = clock(), 0
        while clock() - begun < 2.2 or sent <= 2 * LARGE:
            large, *small = [json.dumps(modern("server/discover", id=id)).encode() for id in range(51)]
            wire.send(pieces(large + b" " * (LARGE // 2)) + b"".join(frame(TEXT, one) for one in small))
            for _ in range(51):
                assert "result" in json.loads(await message(wire))
            sent += LARGE // 2


@run
async def test_what_a_used_connection_carried_before_its_handshake_is_not_counted() -> None:
    """Proxies keep connections, and make a WebSocket of one that has served others."""
    server = Server("unfinished", limits=Limits(max_buffered_bytes=2 * LARGE))
    async with served(server, body_timeout=0.5) as site, connected(site) as wire:
        for _ in range(3):
            wire.send(http(body=b" " * (LARGE // 10)))
            assert (await wire.response())[0] == 400
        await upgrade(wire)
        assert not await wire.closed(1.2)
        assert kept(server) == 0
