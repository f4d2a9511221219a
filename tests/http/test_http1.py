"""HTTP/1.1 on the event loop, without a host: what other hosts decide for themselves is decided by us here."""

import json

import pytest

from dovetail.errors import DovetailError
from dovetail.settings import Limits
from tests.support.aio import run
from tests.support.everything import build
from tests.support.waiting import until
from tests.support.web import Web, modern, modern_headers, served, text

ON = ("asyncio",)
MESSAGE = modern("tools/call", {"name": "shout", "arguments": {"words": "one"}})
HEADERS = modern_headers(MESSAGE)
BODY = json.dumps(MESSAGE).encode()


def written(target: str = "/mcp", version: str = "1.1", body: bytes = BODY, **more: str) -> bytes:
    """A request as it goes over the wire."""
    headers = {"Host": "127.0.0.1", "Content-Length": str(len(body)), **HEADERS, **more}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"POST {target} HTTP/{version}\r\n{lines}\r\n".encode() + body


@run
async def test_requests_that_come_together_are_answered_one_after_the_other() -> None:
    async with served(build()) as site, await site.connect() as connection:
        many = [modern("tools/call", {"name": "shout", "arguments": {"words": str(n)}}) for n in range(50)]
        connection.send(b"".join(written(body=json.dumps(one).encode()) for one in many))
        for number in range(50):
            assert text((await connection.response()).message["result"]) == str(number)


@pytest.mark.parametrize("tail", [b"X: " + b"x" * 1_000_000, b"X: y\r\n" * 200_000], ids=["one", "many"])
@run
async def test_trailers_without_an_end_are_refused(tail: bytes) -> None:
    async with served(build(limits=Limits(header_bytes=10_000))) as site, await site.connect() as connection:
        head = written().partition(b"\r\n\r\n")[0].replace(b"Content-Length: %d\r\n" % len(BODY), b"")
        connection.send(head + b"\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n" % (len(BODY), BODY))
        connection.send(tail)
        found = await connection.response()
        assert (found.status, found.headers["connection"]) == (400, "close")
        assert await connection.at_end()


@run
async def test_a_whole_url_is_a_target_too() -> None:
    async with served(build()) as site, await site.connect() as connection:
        connection.send(written("http://127.0.0.1/mcp"))
        assert text((await connection.response()).message["result"]) == "ONE"
        connection.send(written("/%6dcp"))
        assert text((await connection.response()).message["result"]) == "ONE"


@run
async def test_an_upgrade_with_a_body_is_refused_and_one_without_is_not_made() -> None:
    async with served(build()) as site:
        async with await site.connect() as connection:
            connection.send(written(Connection="Upgrade", Upgrade="h2c"))
            assert (await connection.response()).status == 400
            assert await connection.at_end()
        async with await site.connect() as connection:
            connection.send(
                b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nmore"
            )
            assert (await connection.response()).status == 200
            assert await connection.at_end()


@run
async def test_an_older_client_reads_to_the_end() -> None:
    async with served(build()) as site, await site.connect() as connection:
        connection.send(written(version="1.0"))
        found = await connection.response()
        assert (text(found.message["result"]), found.headers["connection"]) == ("ONE", "close")
        assert await connection.at_end()


@run
async def test_a_head_has_no_body() -> None:
    async with served(build()) as site, await site.connect() as connection:
        connection.send(b"HEAD /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + written())
        assert (await connection.head()).status == 200
        assert text((await connection.response()).message["result"]) == "ONE"


@run
async def test_one_connection_too_many_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.transports.http.host.asyncio_host.HTTP_CONNECTIONS", 2)
    async with served(build()) as site:
        for _ in range(2):
            assert (await (await site.connect()).ask("GET", "/livez", {})).status == 200
        refused = await site.connect()
        assert await refused.at_end()
        await site.connections[0].close()
        await until(lambda: len(site.app.life.running) == 0)
        assert text(await Web(site).call("shout", words="again")) == "AGAIN"


@run
async def test_an_idle_connection_is_closed() -> None:
    async with served(build(), header_timeout=0.2) as site, await site.connect() as connection:
        connection.send(written())
        assert (await connection.response()).status == 200
        assert await connection.at_end()


@pytest.mark.parametrize(
    ("option", "words"), [({"workers": 2}, "several workers"), ({"face": "asgi"}, "WebSockets")]
)
def test_what_it_cannot_do_is_said_at_the_start(option: dict[str, object], words: str) -> None:
    with pytest.raises(DovetailError, match=words):
        build().run("http", server="asyncio", port=0, **option)
