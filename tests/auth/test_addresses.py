"""DNS pinning: requests go to the checked addresses, also if the name resolves differently later."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail.auth import AuthError, MemoryTokens, Unavailable
from dovetail.auth.client.flow_runner import FlowRunner
from dovetail.auth.core.steps import Answer, Ask, Flow, ask
from dovetail.auth.server import json_documents
from dovetail.client.http_client import Fetch
from dovetail.transports.http.client.adapters import fetch_with
from dovetail.transports.http.client.address_class import LOOPBACK, NEVER, PRIVATE, PUBLIC, level
from dovetail.transports.http.client.connection_pool import HttpFetch
from dovetail.transports.http.client.guarded_fetch import AddressGuard
from tests.support.aio import run
from tests.support.certificates import Authority
from tests.support.http_clients import LIBRARIES, Bringing, made_by

NAME = "rebound.localhost"


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What names are answered with, one after the other; the last answer stays."""
    answers: dict[str, list[str]] = {}
    real = socket.getaddrinfo

    def look_up(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        known = answers.get(host)
        if known is None:
            return real(host, port, *arguments, **options)
        address = known.pop(0) if len(known) > 1 else known[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return answers


@asynccontextmanager
async def site(
    address: str, port: int = 0, answer: bytes | None = None
) -> AsyncIterator[tuple[int, list[str]]]:
    """A web server on one address; its port, and what it was asked."""
    asked: list[str] = []
    body = json.dumps({"at": address}).encode()
    whole = answer or b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(whole)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, address, port)
    try:
        yield server.sockets[0].getsockname()[1], asked
    finally:
        server.close()


async def driven(url: str, guard: AddressGuard, fetch: Fetch | None = None) -> Answer:
    def flow() -> Flow[Answer]:
        return (yield from ask(Ask(what="the document", url=url)))

    async with (fetch or HttpFetch()).session() as send:
        return await FlowRunner(send, MemoryTokens(), guard).run(flow())


@run
async def test_a_server_fetches_from_the_address_that_was_checked(names: dict[str, list[str]]) -> None:
    async with site("127.0.0.1") as (port, good), site("127.0.0.2", port) as (_, bad):
        names[NAME] = ["127.0.0.1", "127.0.0.2"]
        guard = AddressGuard("http://127.0.0.1", allow_private=False)
        found = await json_documents.fetch(f"http://{NAME}:{port}/keys", guard=guard)
        assert found == {"at": "127.0.0.1"}
        assert (len(good), bad) == (1, [])
        assert f"Host: {NAME}:{port}" in good[0]


@run
async def test_a_client_asks_the_address_that_was_checked(names: dict[str, list[str]]) -> None:
    async with site("127.0.0.1") as (port, good), site("127.0.0.2", port) as (_, bad):
        names[NAME] = ["127.0.0.1", "127.0.0.2"]
        answer = await driven(f"http://{NAME}:{port}/", AddressGuard("http://127.0.0.1", allow_private=False))
        assert json.loads(answer.body) == {"at": "127.0.0.1"}
        assert (len(good), bad) == (1, [])


@pytest.mark.parametrize("library", LIBRARIES)
@run
async def test_a_client_of_another_library_asks_the_address_that_was_checked(
    library: str, names: dict[str, list[str]]
) -> None:
    guard = AddressGuard("http://127.0.0.1", allow_private=False)
    async with site("127.0.0.1") as (port, good), site("127.0.0.2", port) as (_, bad):
        names[NAME] = ["127.0.0.1", "127.0.0.2"]
        answer = await driven(f"http://{NAME}:{port}/", guard, Bringing(library))
        assert json.loads(answer.body) == {"at": "127.0.0.1"}
        assert (len(good), bad) == (1, [])
        assert good[0].lower().count(f"\r\nhost: {NAME}:{port}\r\n") == 1
        with pytest.raises(AuthError, match="cannot resolve"):
            await driven(f"http://nobody.invalid.localhost:{port}/", guard, Bringing(library))


@pytest.mark.parametrize("library", LIBRARIES)
@run
async def test_the_certificate_of_an_address_is_that_of_the_name(
    library: str, names: dict[str, list[str]], tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    names["right.localhost"] = names["wrong.localhost"] = ["127.0.0.1"]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=authority.server("right.localhost"))
    port = server.sockets[0].getsockname()[1]
    guard = AddressGuard("http://127.0.0.1", allow_private=False)
    async with made_by(library, verify=authority.client()) as client:
        answer = await driven(f"https://right.localhost:{port}/", guard, fetch_with(client))
        assert answer.body == b"{}"
        with pytest.raises(AuthError, match="certificate"):
            await driven(f"https://wrong.localhost:{port}/", guard, fetch_with(client))
    server.close()


@run
async def test_an_unknown_name_is_not_looked_up_again(names: dict[str, list[str]]) -> None:
    async with site("127.0.0.1") as (port, asked):
        with pytest.raises(AuthError, match="cannot resolve"):
            await driven(
                f"http://nobody.invalid.localhost:{port}/",
                AddressGuard("http://127.0.0.1", allow_private=False),
            )
        assert asked == []


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1"]
)
@run
async def test_a_public_server_leads_to_no_address_that_is_more_private(
    address: str, names: dict[str, list[str]]
) -> None:
    names["inside.example"], names["outside.example"] = [address], ["8.8.8.8"]
    guard = AddressGuard("https://outside.example", allow_private=False)
    with pytest.raises(AuthError, match="private network"):
        await driven("https://inside.example/", guard)
    with pytest.raises(Unavailable):
        await json_documents.fetch("https://inside.example/", guard=guard)


@run
async def test_every_redirect_is_looked_at(names: dict[str, list[str]]) -> None:
    names["inside.localhost"] = ["169.254.169.254"]
    away = b"HTTP/1.1 302 Found\r\nLocation: http://inside.localhost/latest\r\nContent-Length: 0\r\n\r\n"
    async with site("127.0.0.1", answer=away) as (port, _):
        with pytest.raises(AuthError, match="private network"):
            await driven(f"http://127.0.0.1:{port}/", AddressGuard("http://127.0.0.1", allow_private=False))
        with pytest.raises(Unavailable):  # servers follow none at all
            await json_documents.fetch(
                f"http://127.0.0.1:{port}/", guard=AddressGuard("http://127.0.0.1", allow_private=False)
            )


@pytest.mark.parametrize(
    ("address", "wanted"),
    [("8.8.8.8", PUBLIC), ("::ffff:127.0.0.1", LOOPBACK), ("::1", LOOPBACK), ("fe80::1%eth0", NEVER),
     ("fd00::1", PRIVATE), ("100.64.0.1", PRIVATE), ("fec0::1", PRIVATE), ("192.0.0.192", PRIVATE),
     ("168.63.129.16", PRIVATE), ("64:ff9b::7f00:1", LOOPBACK), ("64:ff9b::808:808", PUBLIC),
     ("2002:7f00:1::", LOOPBACK), ("::", NEVER), ("ff02::1", NEVER)],
)  # fmt: skip
def test_how_private_an_address_is(address: str, wanted: int) -> None:
    assert level(address) >= wanted
    assert (level(address) == PUBLIC) == (wanted == PUBLIC)


@run
async def test_an_endless_document_is_cut(names: dict[str, list[str]]) -> None:
    endless = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n"
        + b" " * 2_000_000
    )
    async with site("127.0.0.1", answer=endless) as (port, _):
        guard = AddressGuard("http://127.0.0.1", allow_private=False)
        with pytest.raises(Unavailable):
            await json_documents.fetch(f"http://127.0.0.1:{port}/", guard=guard)
        with pytest.raises(AuthError):
            await driven(f"http://127.0.0.1:{port}/", guard)
