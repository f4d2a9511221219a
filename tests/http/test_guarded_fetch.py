"""Requests to URLs that others name: no further inside than who names them, and bounded in everything else."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dovetail import TransportError
from dovetail.transports.http.client.guarded_fetch import AddressGuard, BlockedAddress, Fetched, guarded_fetch
from tests.support.aio import run
from tests.support.waiting import HANG

HERE = "http://127.0.0.1/"


class Site:
    """A web server; ``answers`` has what a path is answered with, ``asked`` the header blocks it received."""

    def __init__(self) -> None:
        self.port = 0
        self.answers: dict[str, bytes] = {}
        self.asked: list[str] = []

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def redirect(self, path: str, location: str, status: int = 302) -> None:
        head = f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 99999999\r\n\r\n"
        self.answers[path] = head.encode() + b"x" * 100_000  # the body of a redirect is not read

    def answer(self, path: str, body: bytes = b"here", status: int = 200) -> None:
        head = f"HTTP/1.1 {status} Fine\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
        self.answers[path] = head.encode() + body

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.asked.append(head)
            answer = self.answers.get(head.split(" ")[1])
            if answer is None:  # it never answers
                await reader.read()
            else:
                writer.write(answer)
                await writer.drain()
                await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving() -> AsyncIterator[Site]:
    site = Site()
    async with await asyncio.start_server(site.serve, "127.0.0.1", 0) as server:
        site.port = server.sockets[0].getsockname()[1]
        yield site


def fetch(url: str, *, named_by: str | None = HERE, **options: Any) -> Any:
    guard = AddressGuard(named_by, allow_private=False)
    return guarded_fetch(url, **{"guard": guard, "max_bytes": 1000, "timeout": HANG, **options})


Names = Callable[..., None]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Set what a name resolves to, one address for each lookup; the last one stays."""
    answers: dict[str, list[str]] = {}
    real = socket.getaddrinfo

    def look_up(host: Any, port: Any, *more: Any, **options: Any) -> Any:
        known = answers.get(host)
        if known is None:
            return real(host, port, *more, **options)
        address = known.pop(0) if len(known) > 1 else known[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    def set_name(name: str, *addresses: str) -> None:
        answers[name] = list(addresses)

    return set_name


@run
async def test_an_answer_is_read_whatever_its_status() -> None:
    async with serving() as site:
        for status in (200, 404, 500):
            site.answer("/", b"here", status)
            found: Fetched = await fetch(site.url("/"))
            assert (found.status, found.body, found.url) == (status, b"here", site.url("/"))
            assert found.headers.get("content-type") == "text/plain"


@run
async def test_redirects_are_followed_up_to_a_number() -> None:
    async with serving() as site:
        for step in range(3):
            site.redirect(f"/{step}", f"/{step + 1}", 301 + step)
        site.answer("/3")
        assert (await fetch(site.url("/0"), max_redirects=3)).url == site.url("/3")
        with pytest.raises(TransportError, match="more than 2 redirects"):
            await fetch(site.url("/0"), max_redirects=2)
        with pytest.raises(TransportError, match=r"the redirect to http://127\.0\.0\.1:\d+ is not allowed$"):
            await fetch(site.url("/0"))


@run
async def test_what_was_posted_follows_no_redirect() -> None:
    async with serving() as site, serving() as other:
        site.redirect("/", other.url("/"), 307)
        with pytest.raises(TransportError, match="the redirect to"):
            await fetch(site.url("/"), method="POST", body=b"secret", max_redirects=3)
        assert other.asked == []


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("file:///etc/passwd", "not a valid URL to connect to"),
        ("ftp://127.0.0.1/", "not a valid URL to connect to"),
        ("javascript:alert(1)", "not a valid URL to connect to"),
        ("http://[::1", "not a URL"),
    ],
)
@run
async def test_a_redirect_leads_to_nothing_but_http(location: str, reason: str) -> None:
    async with serving() as site:
        site.redirect("/", location)
        with pytest.raises(TransportError, match=reason):
            await fetch(site.url("/"), max_redirects=3)


@run
async def test_headers_stay_with_the_origin() -> None:
    async with serving() as site, serving() as other:
        site.redirect("/same", "/page")
        site.redirect("/away", other.url("/page"))
        site.answer("/page")
        other.answer("/page")
        headers = {"Accept": "text/plain", "X-Key": "k"}
        for path in ("/same", "/away"):
            await fetch(site.url(path), headers=headers, max_redirects=1)
        assert ["X-Key: k" in head for head in site.asked] == [True, True, True]
        assert "X-Key" not in other.asked[0]
        assert "Accept: text/plain" in other.asked[0]


@pytest.mark.parametrize(
    "inside",
    [
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "0.0.0.0",
        "[fe80::1]",
        "224.0.0.1",
        "[::ffff:a9fe:a9fe]",
    ],
)
@run
async def test_link_local_and_unusable_addresses_are_never_reached(inside: str) -> None:
    async with serving() as site:
        site.redirect("/", f"http://{inside}/latest")
        with pytest.raises(BlockedAddress, match="private network"):
            await fetch(site.url("/"), max_redirects=3)
        with pytest.raises(BlockedAddress):
            await fetch(f"http://{inside}/", named_by=f"http://{inside}/")


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "192.168.0.1", "100.64.0.1"])
@run
async def test_a_public_party_names_public_addresses_only(address: str, names: Names) -> None:
    names("inside.example", address)
    names("outside.example", "8.8.8.8")
    for named_by in ("https://outside.example/", None):
        with pytest.raises(BlockedAddress):
            await fetch("http://inside.example/", named_by=named_by)


@run
async def test_a_name_that_resolves_differently_later_changes_nothing(names: Names) -> None:
    async with serving() as site:
        site.answer("/")
        names("moving.example", "127.0.0.1", "127.0.0.2")
        assert (await fetch(site.url("/", "moving.example"))).body == b"here"
        assert f"Host: moving.example:{site.port}" in site.asked[0]


@run
async def test_a_party_that_moves_inside_after_the_first_lookup_gains_nothing(names: Names) -> None:
    async with serving() as site:
        site.answer("/")
        names("public.example", "8.8.8.8")
        guard = AddressGuard("http://public.example/", allow_private=False)
        assert await guard.addresses("http://public.example/") == ["8.8.8.8"]
        names("public.example", "127.0.0.1")
        for url in (site.url("/"), site.url("/", "public.example")):
            with pytest.raises(BlockedAddress):
                await fetch(url, guard=guard)
        assert site.asked == []


@run
async def test_private_addresses_can_be_allowed() -> None:
    async with serving() as site:
        site.answer("/")
        for guard in (AddressGuard(None, allow_private=True), None):
            assert (await fetch(site.url("/"), guard=guard)).body == b"here"


@run
async def test_a_body_is_bounded_and_that_of_an_error_is_left_out() -> None:
    async with serving() as site:
        site.answer("/", b"x" * 1000)
        assert len((await fetch(site.url("/"))).body) == 1000
        site.answer("/", b"x" * 1001)
        with pytest.raises(TransportError, match="1000"):
            await fetch(site.url("/"))
        site.answer("/", b"x" * 1001, 404)
        found: Fetched = await fetch(site.url("/"))
        assert (found.status, found.body) == (404, b"")


@run
async def test_everything_together_has_one_time_limit() -> None:
    async with serving() as site:
        site.answers["/slow"] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx"
        for path in ("/silent", "/slow"):
            with pytest.raises(TransportError, match=r"no response within 0\.2 s") as caught:
                await fetch(site.url(path), timeout=0.2)
            assert caught.value.cause == "timeout"


@run
async def test_every_url_is_checked_before_it_is_used() -> None:
    seen: list[str] = []

    def check(url: str) -> None:
        seen.append(url)
        if url.endswith("/page"):
            raise ValueError("not this one")

    async with serving() as site:
        site.redirect("/", "/page")
        site.answer("/page")
        with pytest.raises(ValueError, match="not this one"):
            await fetch(site.url("/"), check=check, max_redirects=3)
        assert seen == [site.url("/"), site.url("/page")]
        assert len(site.asked) == 1
