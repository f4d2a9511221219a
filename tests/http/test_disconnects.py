"""Disconnects and clients that do not read: the server notices both and frees what they held."""

import asyncio
import json
import logging
import socket
from typing import Any

import pytest

from dovetail import Server
from dovetail.settings import Limits
from tests.http.test_buffered_bytes import opened, post
from tests.support.aio import run
from tests.support.waiting import until
from tests.support.web import Site, Web, legacy_headers, modern, request, served


def build(**limits: Any) -> tuple[Server, set[int]]:
    server, running = Server("hangups", limits=Limits(**limits)), set[int]()

    @server.tool
    async def nap(number: int) -> str:
        running.add(number)
        try:
            await asyncio.sleep(600)
        finally:
            running.discard(number)
        return ""

    @server.tool
    async def big(size: int) -> str:
        server.dispatcher.counts["big"] = server.dispatcher.counts.get("big", 0) + 1
        return "x" * size

    return server, running


def nap(number: int) -> dict[str, Any]:
    return modern("tools/call", {"name": "nap", "arguments": {"number": number}})


@run
async def test_a_disconnect_after_a_pipelined_request_is_noticed() -> None:
    server, running = build()
    async with served(server) as site:
        _, writer = await opened(site)
        writer.write(post(nap(1)) + post(nap(2)))
        await until(lambda: site.app.state.disconnects.watches)
        writer.transport.abort()
        await until(lambda: not running)
        assert server.dispatcher.counts["connection_closed"] >= 1


@pytest.mark.parametrize("stateless", [False, True])
@run
async def test_calls_without_a_client_are_bounded(
    caplog: pytest.LogCaptureFixture, *, stateless: bool
) -> None:
    caplog.set_level(logging.INFO, "dovetail.server")
    server, running = build(max_disconnected_calls=3)
    async with served(
        server, stateless=stateless, shutdown_grace_period=0
    ) as site:  # two calls are never over
        session = None if stateless else (await Web(site).initialize("2025-03-26"))[0]
        for first in (0, 2, 4):
            calls = [
                request("tools/call", {"name": "nap", "arguments": {"number": first + n}}) for n in range(2)
            ]
            _, writer = await opened(site)
            body = json.dumps(calls).encode()
            head = {
                "Host": "127.0.0.1",
                "Content-Length": str(len(body)),
                **legacy_headers("2025-03-26", session),
            }
            lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
            writer.write(f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body)
            await until(lambda first=first: {first, first + 1} <= running)
            writer.transport.abort()
            await until(lambda first=first: server.dispatcher.counts.get("connection_closed", 0) == first + 2)
        await until(lambda: running == {0, 1})
        assert "499 tools/call" in caplog.text
        assert server.dispatcher.admission.shared.disconnected_requests.in_use == 2


@pytest.mark.parametrize("era", ["modern", "legacy"])
@run
async def test_cancelled_calls_that_do_not_end_count_as_under_way(era: str) -> None:
    server, running = build(max_concurrent_requests=2, max_disconnected_calls=0)
    release = asyncio.Event()

    @server.tool
    async def linger() -> str:
        running.add(len(running))
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await release.wait()
            running.pop()
        return ""

    asked: dict[str, Any] = {"name": "linger", "arguments": {}}
    if era == "modern":
        message = post(modern("tools/call", asked))
    else:
        message = post(request("tools/call", asked), **{"MCP-Protocol-Version": "2025-11-25"})
    async with served(server, stateless=True) as site:
        for number in (1, 2):
            _, writer = await opened(site)
            writer.write(message)
            await until(lambda number=number: len(running) == number)
            writer.transport.abort()
            await until(lambda number=number: server.dispatcher.counts.get("connection_closed", 0) == number)
        refused = await Web(site).modern("tools/list")
        assert (refused.status, refused.message["error"]["code"]) == (503, 1004)
        assert refused.headers["retry-after"] == "5"
        release.set()
        await until(lambda: not running)
        assert (await Web(site).modern("tools/list")).status == 200


@run
async def test_large_responses_that_no_client_reads_have_a_total() -> None:
    server, _ = build(max_buffered_bytes=20 << 20)
    message = modern("tools/call", {"name": "big", "arguments": {"size": 12 << 20}})
    buffered = server.dispatcher.admission.shared.buffered_bytes
    async with served(server) as site:
        _, writer = await narrow(site)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(post(message))
        await until(lambda: buffered.in_use > 12 << 20)
        refused = await Web(site).modern("tools/call", message["params"])
        assert (refused.status, refused.message["error"]["code"]) == (503, 1004)
        assert refused.headers["retry-after"] == "5"
        assert (await Web(site).modern("tools/list")).status == 200
        writer.transport.abort()
        await until(lambda: buffered.in_use == 0)
        assert (await Web(site).modern("tools/call", message["params"])).status == 200


async def narrow(site: Site) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client whose kernel buffers little."""
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
    wire.connect(("127.0.0.1", site.port))
    return await asyncio.open_connection(sock=wire)
