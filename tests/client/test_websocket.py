"""The WebSocket link against the `websockets` package's own server."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.utils import accept_key

from dovetail import Client
from dovetail.client.connecting.server_cache import ServerCache
from dovetail.errors import DovetailError, RequestTimeout, SessionLost, TransportError
from dovetail.settings import Limits
from dovetail.transports.websocket import connect
from tests.support.waiting import HANG
from tests.transports.recorder import Recorder

from ..support.aio import run
from .test_hostile_servers import turning

server_module = pytest.importorskip("websockets.asyncio.server")

DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
    "resultType": "complete",
}


def answer(message: dict[str, Any], words: str = "hi") -> str:
    called = {"content": [{"type": "text", "text": words}], "resultType": "complete"}
    value = DISCOVERED if message["method"] == "server/discover" else called
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": value})


@asynccontextmanager
async def serving(
    handle: Callable[[Any, dict[str, Any]], Awaitable[None]], **options: Any
) -> AsyncIterator[str]:
    async def serve(connection: Any) -> None:
        async for data in connection:
            await handle(connection, json.loads(data))

    async with server_module.serve(serve, "127.0.0.1", 0, subprotocols=["mcp"], **options) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"


async def plain(connection: Any, message: dict[str, Any]) -> None:
    if "id" in message:
        await connection.send(answer(message))


def client(url: str, **options: Any) -> Client:
    return Client(url, revision="modern", server_cache=ServerCache(), reconnect=False, **options)


@run
async def test_calls_over_a_websocket() -> None:
    async with serving(plain) as url, client(url) as connected:
        results = await asyncio.gather(*(connected.call_tool("x") for _ in range(20)))
        assert {result.text for result in results} == {"hi"}


@run
async def test_the_official_subprotocol_is_offered_and_headers_are_sent() -> None:
    seen: dict[str, Any] = {}

    async def handle(connection: Any, message: dict[str, Any]) -> None:
        seen["subprotocol"] = connection.subprotocol
        seen["token"] = connection.request.headers["Authorization"]
        await plain(connection, message)

    async with serving(handle) as url, client(url, auth="t") as connected:
        await connected.call_tool("x")
    assert seen == {"subprotocol": "mcp", "token": "Bearer t"}


@run
async def test_fragments_and_several_messages_in_one_frame_are_understood() -> None:
    async def handle(connection: Any, message: dict[str, Any]) -> None:
        text = answer(message)
        notice = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
        if message["method"] == "tools/call":
            await connection.send([text[:10], text[10:30], text[30:]])
        else:
            await connection.send(notice + "\n" + text + "\n")

    changed: list[str] = []
    async with serving(handle) as url, client(url, on_list_changed=changed.append) as connected:
        assert (await connected.call_tool("x")).text == "hi"
    assert changed == ["tools"]


@pytest.mark.parametrize(("code", "cause"), [(1000, "eof"), (1001, "eof"), (1011, "reset")])
@run
async def test_a_close_frame_ends_the_call_with_its_reason(code: int, cause: str) -> None:
    async def handle(connection: Any, message: dict[str, Any]) -> None:
        if message["method"] == "tools/call":
            await connection.close(code, "good night")
        else:
            await plain(connection, message)

    async with serving(handle) as url, client(url) as connected:
        with pytest.raises(SessionLost, match="good night") as caught:
            await connected.call_tool("x")
        assert caught.value.cause == cause


@run
async def test_a_binary_frame_and_a_giant_one_end_the_connection() -> None:
    for reply in (b"\x00\x01", "x" * 5000):

        async def handle(connection: Any, message: dict[str, Any], reply: Any = reply) -> None:
            if message["method"] == "tools/call":
                await connection.send(reply)
            else:
                await plain(connection, message)

        async with serving(handle) as url, client(url, limits=Limits(max_message_bytes=2000)) as connected:
            with pytest.raises(SessionLost) as caught:
                await connected.call_tool("x")
            assert caught.value.cause == "protocol"


@run
async def test_a_refused_handshake_names_the_status() -> None:
    def refuse(connection: Any, request: Any) -> Any:
        return connection.respond(403, "no\n")

    async with serving(plain, process_request=refuse) as url:
        with pytest.raises(TransportError, match="HTTP 403"):
            await client(url).open()


@run
async def test_an_unreachable_server_and_an_unresponsive_one() -> None:
    async with serving(plain) as url:
        pass
    with pytest.raises(TransportError) as caught:
        await client(url).open()
    assert caught.value.cause == "refused"

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    from dovetail import Timeouts

    port = server.sockets[0].getsockname()[1]
    with pytest.raises(RequestTimeout) as late:
        await client(f"ws://127.0.0.1:{port}/", timeouts=Timeouts(connect=0.2)).open()
    assert late.value.limit == "connect"
    server.close()


@run
async def test_a_server_that_goes_on_talking_does_not_put_off_the_end() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        (key,) = re.findall(r"(?i)sec-websocket-key: (\S+)", head)
        lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
        writer.write("\r\n".join([*lines, f"Sec-WebSocket-Accept: {accept_key(key)}", "", ""]).encode())
        while not writer.is_closing():
            writer.write(b"\x81\x02{}")
            await asyncio.sleep(0)

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    link = await connect(Recorder(), f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    link.close()
    async with asyncio.timeout(HANG):
        await link.wait_closed()
    server.close()


@run
async def test_a_plain_web_server_is_not_mistaken_for_one() -> None:
    from .fake_http import Reply
    from .fake_http import serving as web

    async with web(lambda request: Reply(200, {}, b"hello")) as (_, url):
        with pytest.raises(DovetailError):
            await client(url.replace("http", "ws")).open()


@run
async def test_a_server_that_says_goodbye_at_once_is_quoted() -> None:
    async def serve(connection: Any) -> None:
        await connection.close(1011, "out of order")

    async with server_module.serve(serve, "127.0.0.1", 0, subprotocols=["mcp"]) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        with pytest.raises(TransportError, match=r"1011.*out of order"):
            await client(url).open()


@pytest.mark.parametrize("piece", [b"{}\n", b"\n", b"x\n"])
@run
async def test_a_frame_of_very_many_messages_does_not_stop_the_loop(piece: bytes) -> None:
    async def handle(connection: Any, message: dict[str, Any]) -> None:
        if message["method"] == "tools/call":
            await connection.send((piece * ((1 << 18) // len(piece))).decode())
        await plain(connection, message)

    async with serving(handle) as url, client(url) as connected, turning():
        assert (await connected.call_tool("x", timeout=HANG)).text == "hi"


@run
async def test_what_came_before_the_end_is_delivered_though_it_takes_several_turns() -> None:
    async def handle(connection: Any, message: dict[str, Any]) -> None:
        if message["method"] == "tools/call":
            await connection.send("\n" * (1 << 20) + answer(message))
            await connection.close()
        else:
            await plain(connection, message)

    async with serving(handle) as url, client(url) as connected:
        assert (await connected.call_tool("x", timeout=HANG)).text == "hi"


@pytest.mark.parametrize(
    "headers",
    [{"X-A": "1\r\nX-B: 2"}, {"X-A": "\0"}, {"X A": "1"}, {"": "1"}, {"Transfer-Encoding": "chunked"}],
)
@run
async def test_headers_that_cannot_be_sent_are_refused_before_anything_is(headers: dict[str, str]) -> None:
    connections = 0

    async def handle(connection: Any, message: dict[str, Any]) -> None:
        nonlocal connections
        connections += 1

    async with serving(handle) as url:
        with pytest.raises(TransportError) as caught:
            await client(url, headers=headers).open()
        assert caught.value.cause == "protocol"
    assert connections == 0


@run
async def test_a_header_of_the_handshake_is_replaced_and_not_sent_twice() -> None:
    seen: list[str] = []

    async def handle(connection: Any, message: dict[str, Any]) -> None:
        seen.extend(connection.request.headers.get_all("User-Agent"))
        await plain(connection, message)

    async with serving(handle) as url, client(url, headers={"User-Agent": "mine"}):
        pass
    assert seen == ["mine"]


@run
async def test_no_secret_reaches_a_log(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(plain) as url:
        with caplog.at_level(logging.DEBUG):
            caplog.set_level(logging.INFO, "websockets.server")
            async with client(url, auth="very-secret") as connected:
                await connected.call_tool("x")
    assert "very-secret" not in caplog.text
