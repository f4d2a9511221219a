"""Trailers and upgrades: nothing after the header block changes who the caller is."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from dovetail import Context, Server
from tests.support.aio import run
from tests.support.waiting import turns
from tests.support.web import modern, modern_headers, served


def build() -> tuple[Server, list[str]]:
    server, callers = Server("heads"), list[str]()

    @server.tool
    async def whoami(ctx: Context) -> str:
        callers.append(str(ctx.principal))
        return callers[-1]

    return server, callers


def named(scope: Mapping[str, Any]) -> str | None:
    return dict(scope["headers"]).get(b"x-user", b"").decode() or None


WHOAMI = modern("tools/call", {"name": "whoami"})
BODY = json.dumps(WHOAMI).encode()
CHUNKED = modern_headers(WHOAMI) | {"Transfer-Encoding": "chunked"}


@run
async def test_a_trailer_does_not_name_the_caller() -> None:
    server, callers = build()
    async with served(server, principal=named) as site:
        for pieces in (1, 2):
            async with await site.connect() as connection:
                body = b"%x\r\n%s\r\n0\r\nX-User: root\r\n\r\n" % (len(BODY), BODY)
                connection.request("POST", "/mcp", CHUNKED, body[:10] if pieces == 2 else body)
                if pieces == 2:
                    await connection.writer.drain()
                    connection.send(body[10:])
                assert (await connection.response()).status in (200, 400)
    assert set(callers) <= {"None"}


@run
async def test_a_trailer_is_no_header_of_the_request() -> None:
    server = Server("heads")

    @server.tool
    async def names(ctx: Context) -> list[str]:
        return [name.decode() for name, _ in ctx.scope["headers"]]

    message = modern("tools/call", {"name": "names"})
    body = json.dumps(message).encode()
    tail = b"%x\r\n%s\r\n0\r\nX-User: root\r\nMcp-Name: other\r\n\r\n" % (len(body), body)
    async with served(server) as site:
        for cut in (0, 10, len(tail) - 30):
            async with await site.connect() as connection:
                chunked = modern_headers(message) | {"Transfer-Encoding": "chunked"}
                connection.request("POST", "/mcp", chunked, tail[:cut] or tail)
                if cut:
                    await connection.writer.drain()
                    await turns()
                    connection.send(tail[cut:])
                found = await connection.response()
                assert found.status in (200, 400)  # granian refuses trailers
                assert b"x-user" not in found.body
                assert b"-32020" not in found.body


@pytest.mark.parametrize("protocol", ["h2c", "foo", "websockets"])
def test_another_protocol_is_not_upgraded_to(protocol: str) -> None:
    @run
    async def scenario() -> None:
        server, callers = build()
        async with served(server) as site, await site.connect() as connection:
            inner = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n" % len(BODY)
            lines = "".join(f"{name}: {value}\r\n" for name, value in modern_headers(WHOAMI).items())
            connection.request(
                "POST",
                "/mcp",
                {"Connection": "Upgrade", "Upgrade": protocol, **modern_headers(WHOAMI)},
                inner + lines.encode() + b"\r\n" + BODY,
            )
            found = await connection.response()
            assert found.status == 400
            assert found.headers["connection"] == "close"
            assert await connection.at_end()
        assert callers == []

    scenario()
