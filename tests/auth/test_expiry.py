"""A token that expires ends what it opened: streams and sockets, but not what a new token may go on with.

A call that was let in is finished, on every transport: whether its caller may was asked when it began.
"""

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


def slow(auth: Any, ended: asyncio.Event) -> Any:
    server = mail(auth)

    @server.tool
    async def outlive() -> str:
        """Last longer than the token."""
        await ended.wait()
        return "outlived"

    return server


async def later(ended: asyncio.Event) -> None:
    """When every token of this test is over."""
    asyncio.get_running_loop().call_later(SOON + 0.5, ended.set)


OUTLIVE = {"name": "outlive", "arguments": {}}


@run
async def test_a_call_that_was_let_in_is_finished_and_the_next_one_is_not_let_in() -> None:
    ended, good = asyncio.Event(), True

    async def once(token: str, scope: Any) -> Principal | None:
        return await verify(token, scope) if good else None

    async with served(slow(once, ended)) as site:
        await later(ended)
        web = Web(site)
        session, _ = await web.initialize("2025-06-18", ANN)
        message = modern("tools/call", OUTLIVE)
        modern_call = web.ask("POST", modern_headers(message) | ANN, json.dumps(message).encode())
        legacy_call = web.legacy("2025-06-18", session, "tools/call", OUTLIVE, headers=ANN)
        calls = [asyncio.ensure_future(modern_call), asyncio.ensure_future(legacy_call)]
        await ended.wait()
        good = False
        for answer in await asyncio.gather(*calls):
            assert b"outlived" in answer.body
        again = legacy_headers("2025-06-18", session) | ANN
        assert (await web.ask("POST", again, json.dumps(message).encode())).status == 401


@run
async def test_a_call_on_a_websocket_is_finished_and_no_other_is_begun() -> None:
    ended = asyncio.Event()
    async with (
        served(slow(verify, ended)) as site,
        connect(f"ws://127.0.0.1:{site.port}/mcp", additional_headers=ANN) as socket,
    ):
        await later(ended)
        await socket.send(json.dumps(modern("tools/call", OUTLIVE)))
        async with asyncio.timeout(10):
            assert "outlived" in str(await socket.recv())
            with pytest.raises(ConnectionClosed):
                await socket.recv()
