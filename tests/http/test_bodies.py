"""Request bodies arrive whole, however large they are and wherever they were cut on their way."""

import asyncio
import http.client
import json
from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
import pytest

from dovetail import Server
from dovetail.settings import Limits
from tests.support.aio import run
from tests.support.waiting import HANG, turns
from tests.support.web import Site, Web, modern, modern_headers, served, text

SIZES = (1, 1 << 10, 64 << 10, 128 << 10, 1 << 20, 8 << 20)
"""Bytes of an argument. More than 64 KiB is more than a head may have, and than one read brings."""


def measuring(limits: Limits | None = None) -> Server:
    server = Server("measuring", limits=limits or Limits())

    @server.tool
    async def measure(words: str) -> int:
        return len(words)

    return server


def message(size: int) -> tuple[dict[str, str], bytes]:
    whole = modern("tools/call", {"name": "measure", "arguments": {"words": "x" * size}})
    return modern_headers(whole), json.dumps(whole).encode()


def measured(body: bytes) -> int:
    return int(text(json.loads(body)["result"]))


def by_http_client(port: int) -> Iterator[int]:
    """Head and body in writes of their own, on one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG)
    for size in SIZES:
        headers, body = message(size)
        connection.request("POST", "/mcp", body, headers)
        yield measured(connection.getresponse().read())
        pieces = (body[at : at + 100_000] for at in range(0, len(body), 100_000))
        connection.request("POST", "/mcp", pieces, headers, encode_chunked=True)
        yield measured(connection.getresponse().read())
    connection.close()


@run
async def test_http_client_may_send_what_it_likes() -> None:
    async with served(measuring()) as site:
        found = await asyncio.to_thread(lambda: list(by_http_client(site.port)))
        assert found == [size for size in SIZES for _ in range(2)]


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
@run
async def test_httpx_may_send_what_it_likes(library: Any) -> None:
    async with served(measuring()) as site, library.AsyncClient(timeout=HANG) as client:

        async def pieces(body: bytes) -> Any:
            for at in range(0, len(body), 100_000):
                yield body[at : at + 100_000]

        for size in SIZES:
            headers, body = message(size)
            for content in (body, pieces(body)):
                found = await client.post(
                    f"http://127.0.0.1:{site.port}/mcp", content=content, headers=headers
                )
                assert measured(found.content) == size


def raw(headers: dict[str, str], body: bytes) -> tuple[bytes, bytes]:
    """A request as bytes: its head, and its body."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    head = ["POST /mcp HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", *lines, "", ""]
    return "\r\n".join(head).encode(), body


async def in_pieces(site: Site, *pieces: bytes) -> int:
    """Send each piece in a separate write, and let the other side read it alone."""
    async with await site.connect() as connection:
        for piece in pieces:
            connection.send(piece)
            await connection.writer.drain()
            await turns()
        return measured((await connection.response()).body)


@pytest.mark.parametrize("size", SIZES)
def test_a_request_may_be_cut_anywhere(size: int) -> None:
    @run
    async def scenario() -> None:
        async with served(measuring()) as site:
            head, body = raw(*message(size))
            whole = head + body
            end = len(head)
            for cut in (1, end // 2, end - 3, end - 2, end - 1, end, end + 1, len(whole) - 1):
                assert await in_pieces(site, whole[:cut], whole[cut:]) == size
            thirds = [
                whole[at : at + len(whole) // 3 + 1] for at in range(0, len(whole), len(whole) // 3 + 1)
            ]
            assert await in_pieces(site, *thirds) == size
            half = len(body) // 2
            assert await in_pieces(site, head, body[:half], body[half:]) == size

    scenario()


@run
async def test_a_request_may_come_byte_by_byte() -> None:
    async with served(measuring()) as site, await site.connect() as connection:
        for byte in b"".join(raw(*message(1))):
            connection.send(bytes([byte]))
            await connection.writer.drain()
            await asyncio.sleep(0)
        assert measured((await connection.response()).body) == 1


@run
async def test_a_body_over_the_limit_is_413_however_it_is_declared() -> None:
    limits = Limits(max_message_bytes=100_000)
    async with served(Server("small", limits=limits)) as site:
        headers, body = message(200_000)
        async with await site.connect() as connection:
            head, _ = raw(headers, body)
            connection.send(head)
            assert (await connection.response()).status == 413
        async with await site.connect() as connection:
            connection.request("POST", "/mcp", headers | {"Transfer-Encoding": "chunked"})
            for at in range(0, len(body), 50_000):
                piece = body[at : at + 50_000]
                connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            assert (await connection.response()).status == 413
        assert (await Web(site).modern("tools/list")).status in (200, 404)


@pytest.mark.parametrize("zeros", [1, 20, 5000])
def test_zeros_before_a_length_change_nothing(zeros: int, caplog: pytest.LogCaptureFixture) -> None:
    @run
    async def scenario() -> None:
        server = measuring(Limits(max_message_bytes=100_000))
        async with served(server) as site:
            for size, status in ((10, 200), (90_000, 200), (200_000, 413)):
                headers, body = message(size)
                async with await site.connect() as connection:
                    declared = "0" * zeros + str(len(body))
                    connection.request("POST", "/mcp", headers | {"Content-Length": declared}, body)
                    assert (await connection.head()).status == status

    scenario()
    assert caplog.text == ""


@run
async def test_a_chunked_body_that_breaks_off_runs_nothing() -> None:
    called: list[str] = []
    server = Server("careful")

    @server.tool
    async def note() -> str:
        called.append("note")
        return ""

    whole = modern("tools/call", {"name": "note"})
    body = json.dumps(whole).encode()
    headers = modern_headers(whole) | {"Transfer-Encoding": "chunked"}
    async with served(server) as site:
        for rest in (b"zz\r\n", b""):
            connection = await site.connect()
            connection.request("POST", "/mcp", headers)
            connection.send(b"%x\r\n%b\r\n" % (len(body), body) + rest)
            await connection.writer.drain()
            if rest:
                assert (await connection.head()).status == 400
            await connection.close()
        assert (await Web(site).call("note"))["content"]
        assert called == ["note"]
