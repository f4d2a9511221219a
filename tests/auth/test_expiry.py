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
from tests.auth.test_authenticate import ANN, mail
from tests.support.aio import run
from tests.support.waiting import HANG, until
from tests.support.web import Web, legacy_headers, modern, modern_headers, served

SOON = 0.6


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
        async with asyncio.timeout(HANG):
            while await connection.chunk():
                pass
        assert (await web.legacy("2025-06-18", session, "ping", headers=ANN)).status == 200


@run
async def test_a_listen_stream_ends() -> None:
    async with served(mail(verify)) as site, await site.connect() as connection:
        message = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        connection.request("POST", "/mcp", modern_headers(message) | ANN, json.dumps(message).encode())
        assert (await connection.head()).status == 200
        async with asyncio.timeout(HANG):
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
        async with asyncio.timeout(HANG):
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
            async with asyncio.timeout(HANG):
                await socket.recv()


class Slow:
    """A server with a tool that lasts longer than the token."""

    def __init__(self, auth: Any) -> None:
        self.server = mail(auth)
        self.begun, self.ended = 0, asyncio.Event()

        @self.server.tool
        async def outlive() -> str:
            self.begun += 1
            await self.ended.wait()
            return "outlived"

    async def outlived(self, calls: int) -> None:
        """Wait for this number of running calls, and until every token of this test has expired."""
        await until(lambda: self.begun == calls)
        asyncio.get_running_loop().call_later(SOON + 0.2, self.ended.set)
        await self.ended.wait()


OUTLIVE = {"name": "outlive", "arguments": {}}


@run
async def test_a_call_that_was_let_in_is_finished_and_the_next_one_is_not_let_in() -> None:
    good = True

    async def once(token: str, scope: Any) -> Principal | None:
        return await verify(token, scope) if good else None

    slow = Slow(once)
    async with served(slow.server) as site:
        web = Web(site)
        session, _ = await web.initialize("2025-06-18", ANN)
        message = modern("tools/call", OUTLIVE)
        modern_call = web.ask("POST", modern_headers(message) | ANN, json.dumps(message).encode())
        legacy_call = web.legacy("2025-06-18", session, "tools/call", OUTLIVE, headers=ANN)
        calls = [asyncio.ensure_future(modern_call), asyncio.ensure_future(legacy_call)]
        await slow.outlived(2)
        good = False
        for answer in await asyncio.gather(*calls):
            assert b"outlived" in answer.body
        again = legacy_headers("2025-06-18", session) | ANN
        assert (await web.ask("POST", again, json.dumps(message).encode())).status == 401


@run
async def test_a_call_on_a_websocket_is_finished_and_no_other_is_begun() -> None:
    slow = Slow(verify)
    async with (
        served(slow.server) as site,
        connect(f"ws://127.0.0.1:{site.port}/mcp", additional_headers=ANN) as socket,
    ):
        await socket.send(json.dumps(modern("tools/call", OUTLIVE)))
        await slow.outlived(1)
        async with asyncio.timeout(HANG):
            assert "outlived" in str(await socket.recv())
            with pytest.raises(ConnectionClosed):
                await socket.recv()
