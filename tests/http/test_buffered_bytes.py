"""Shared limits: the newest large request is refused, and small requests are not affected."""

import asyncio
import json
from typing import Any

from dovetail import Server
from dovetail.core.limits import UNCOUNTED_BYTES
from dovetail.settings import Limits
from tests.support.aio import run
from tests.support.waiting import until
from tests.support.web import Site, Web, modern, modern_headers, served

SIZE = 4 * UNCOUNTED_BYTES


def build(**limits: Any) -> tuple[Server, asyncio.Event]:
    server, gate = Server("budgets", limits=Limits(**limits)), asyncio.Event()

    @server.tool
    async def wait(text: str = "") -> int:
        await gate.wait()
        return len(text)

    @server.tool
    async def big(size: int) -> str:
        return "x" * size

    @server.resource("thing://{name}")
    def thing(name: str) -> str:
        return name

    return server, gate


def post(message: dict[str, Any], **headers: str) -> bytes:
    body = json.dumps(message).encode()
    lines = {
        "Host": "127.0.0.1",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **modern_headers(message),
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


async def opened(site: Site) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", site.port)


LARGE = modern("tools/call", {"name": "wait", "arguments": {"text": "x" * SIZE}})


@run
async def test_bodies_that_do_not_end_are_counted_and_given_back() -> None:
    server, gate = build(max_buffered_bytes=2 * SIZE)
    gate.set()
    account = server.dispatcher.admission.shared.buffered_bytes
    async with served(server) as site:
        _, writer = await opened(site)
        writer.write(post(LARGE)[:-10])
        await until(lambda: account.in_use > 0)
        reader, other = await opened(site)
        other.write(post(LARGE)[:-10])
        assert b" 503 " in await reader.readline()
        assert "result" in (await Web(site).modern("tools/list")).message
        writer.close()
        other.close()
        await until(lambda: account.in_use == 0)
        assert (await Web(site).modern("tools/call", LARGE["params"])).status == 200


@run
async def test_a_body_in_chunks_is_counted_as_it_comes() -> None:
    server, _ = build(max_buffered_bytes=SIZE)
    async with served(server) as site:
        reader, writer = await opened(site)
        whole = post(LARGE, **{"Content-Length": "", "Transfer-Encoding": "chunked"})
        head, body = whole.split(b"\r\n\r\n", 1)
        writer.write(head + b"\r\n\r\n%x\r\n" % (len(body) + SIZE) + body + b" " * SIZE)
        assert b" 503 " in await reader.readline()
        writer.close()
        await until(lambda: server.dispatcher.admission.shared.buffered_bytes.in_use == 0)


@run
async def test_a_large_message_counts_for_as_long_as_its_call_runs() -> None:
    server, gate = build(max_buffered_bytes=2 * SIZE)
    async with served(server) as site:
        reader, writer = await opened(site)
        writer.write(post(LARGE))
        await until(lambda: server.dispatcher.admission.shared.buffered_bytes.in_use > 0)
        refused = await Web(site).modern("tools/call", LARGE["params"])
        assert (refused.status, refused.message["error"]["code"]) == (503, 1004)
        assert refused.headers["retry-after"] == "5"
        gate.set()
        assert b" 200 " in await reader.readline()
        await until(lambda: server.dispatcher.admission.shared.buffered_bytes.in_use == 0)
        writer.close()


@run
async def test_addresses_have_a_total_and_unsubscribing_gives_them_back() -> None:
    server, _ = build(max_subscribed_uri_bytes=10_000)
    async with served(server) as site:
        web = Web(site)
        sessions = [(await web.initialize("2025-11-25"))[0] for _ in range(2)]
        uri = {"uri": "thing://" + "x" * 6000}

        async def ask(session: str, method: str) -> dict[str, Any]:
            return (await web.legacy("2025-11-25", session, method, uri)).message

        assert "result" in await ask(sessions[0], "resources/subscribe")
        assert (await ask(sessions[1], "resources/subscribe"))["error"]["code"] == 1004
        assert "result" in await ask(sessions[0], "resources/subscribe")  # once more is still once
        assert "result" in await ask(sessions[0], "resources/unsubscribe")
        assert "result" in await ask(sessions[1], "resources/subscribe")
