"""What a connection held goes with it, without waiting for the collector of circles."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from dovetail import Context, Server
from dovetail.drivers import duplex
from dovetail.transports import tcp
from tests.support.aio import run
from tests.support.waiting import until

HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"t","version":"1"}}}\n'
)
READY = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
CALL = b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"say","arguments":{}}}\n'
MODERN = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"say","arguments":{},"_meta":{'
    b'"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}\n'
)
TALKS = {
    "silence": (),
    "rubbish": (b"GET / HTTP/1.1\r\n\r\n",),
    "a session": (HELLO, READY),
    "a session with a call": (HELLO, READY, CALL),
    "a modern call": (MODERN,),
}


def serving() -> Server:
    server = Server("ended")

    @server.tool
    async def say(ctx: Context) -> str:
        await ctx.info("well")
        return "said"

    return server


@pytest.mark.parametrize("talk", TALKS.values(), ids=TALKS)
@run
async def test_a_closed_connection_leaves_no_resources(
    talk: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Any]] = []

    class Watched(duplex.Duplex):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(weakref.ref(self))

    monkeypatch.setattr(duplex, "Duplex", Watched)
    async with tcp.lifespan(dispatcher := serving().dispatcher):
        listener = await tcp.listen(dispatcher)
        gc.collect()
        gc.disable()
        try:
            reader, writer = await asyncio.open_connection(*listener.address)
            for message in talk:
                writer.write(message)
                while b'"id"' in message and b'"id"' not in await reader.readline():
                    pass
            await until(lambda: bool(made))
            writer.close()
            await until(lambda: made[0]() is None)
        finally:
            gc.enable()
            await listener.close()
