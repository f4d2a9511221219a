"""A token that expires ends what it opened: streams and sockets, but not what a new token may go on with."""

import asyncio
import json
import time
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from dovetail import Principal
from tests.auth.test_gate import ANN, mail
from tests.support.aio import run
from tests.support.web import Web, legacy_headers, modern, modern_headers, served

ON = ("granian", "uvicorn")
SOON = 1.0


async def verify(token: str, scope: Any) -> Principal | None:
    """Everything verified now ends soon."""
    return Principal("ann", claims={"exp": time.time() + SOON})


@run
async def test_the_general_stream_of_a_session_ends_and_the_session_goes_on() -> None:
    async with served(mail(verify)) as site, await site.connect() as connection:
        web = Web(site)
        session, _ = await web.initialize("2025-06-18", ANN)
        connection.request("GET", "/mcp", legacy_headers("2025-06-18", session) | ANN)
        assert (await connection.head()).status == 200
        begun = time.monotonic()
        async with asyncio.timeout(10):
            while await connection.chunk():
                pass
        assert time.monotonic() - begun < 5
        assert (await web.legacy("2025-06-18", session, "ping", headers=ANN)).status == 200


@run
async def test_a_listen_stream_ends() -> None:
    async with served(mail(verify)) as site, await site.connect() as connection:
        message = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        connection.request("POST", "/mcp", modern_headers(message) | ANN, json.dumps(message).encode())
        assert (await connection.head()).status == 200
        async with asyncio.timeout(10):
            assert b"acknowledged" in await connection.chunk()
            try:
                while await connection.chunk():
                    pass
            except (asyncio.IncompleteReadError, ValueError):
                pass  # cut off


@run
async def test_the_pair_of_2024_ends() -> None:
    async with served(mail(verify)) as site, await site.connect() as connection:
        connection.request("GET", "/sse", {"Accept": "text/event-stream"} | ANN)
        assert (await connection.head()).status == 200
        async with asyncio.timeout(10):
            while await connection.chunk():
                pass


@run
async def test_a_websocket_ends() -> None:
    async with (
        served(mail(verify)) as site,
        connect(f"ws://127.0.0.1:{site.port}/mcp", additional_headers=ANN) as socket,
    ):
        message = modern("tools/call", {"name": "who", "arguments": {}})
        await socket.send(json.dumps(message))
        assert json.loads(await socket.recv())["id"] == message["id"]
        with pytest.raises(ConnectionClosed):
            async with asyncio.timeout(10):
                await socket.recv()
