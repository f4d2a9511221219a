"""Requests through a proxy: what the proxy and the server receive, and proxies that violate the protocol."""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import Any

import pytest

from dovetail.errors import TransportError
from dovetail.transports.http.client.connect_socket import ANSWER_HEAD
from dovetail.transports.http.client.connection_pool import HttpFetch
from tests.http.raw_server import Peer, Script, answer, answering, ask, header, raw_server, turns
from tests.support.aio import run
from tests.support.certificates import Authority
from tests.support.proxy import forward_proxy
from tests.support.rawclient import until
from tests.support.waiting import HANG

NAME = "server.example"
"""A server that only the proxy can find."""
OPENED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def through(port: int, *, user: str = "", scheme: str = "http", verify: Any = True) -> Any:
    return HttpFetch(verify=verify, proxy=f"{scheme}://{user}127.0.0.1:{port}").session()


async def failure(
    script: Script, url: str = f"https://{NAME}/", user: str = "user:secret@"
) -> TransportError:
    """What comes of a request through a proxy that follows ``script``; the connection must be closed at once."""
    gone = asyncio.Event()

    async def watched(peer: Peer) -> None:
        await script(peer)
        await peer.gone()
        gone.set()

    async with raw_server(watched) as proxy, through(proxy.port, user=user) as send:
        with pytest.raises(TransportError) as caught:
            async with asyncio.timeout(HANG):
                await ask(send, url)
        async with asyncio.timeout(HANG):
            await gone.wait()
        await until(lambda: not send.connections)
        assert f"the proxy http://127.0.0.1:{proxy.port}" in caught.value.message
        assert "secret" not in str(caught.value)
    return caught.value


def says(*pieces: bytes) -> Script:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.drip(*pieces)

    return script


# --- http: the proxy fetches it ------------------------------------------------------------------------------------


@run
async def test_an_http_url_is_fetched_by_the_proxy() -> None:
    async with raw_server(answering(answer())) as server, forward_proxy(user="me:secret") as proxy:
        async with through(proxy.port, user="me:secret@") as send:
            url = f"http://bob:pw@{NAME}:{server.port}/a b?c=d"
            assert await ask(send, url) == b"hello"
        (head,) = proxy.heads
        assert head.startswith(f"POST http://{NAME}:{server.port}/a%20b?c=d HTTP/1.1\r\n")
        assert header(head, "host") == f"{NAME}:{server.port}"
        assert header(head, "proxy-authorization") == "Basic bWU6c2VjcmV0"
        heard = server.peers[0].requests[0][0]
        assert heard.startswith("POST /a%20b?c=d HTTP/1.1\r\n")
        assert header(heard, "authorization") == "Basic Ym9iOnB3"


@run
async def test_the_connection_to_a_proxy_is_used_again() -> None:
    async with raw_server(answering(answer())) as proxy, through(proxy.port) as send:
        for _ in range(3):
            assert await ask(send, f"http://{NAME}/mcp") == b"hello"
        assert [len(peer.requests) for peer in proxy.peers] == [3]


def test_a_proxy_that_is_reached_by_tls_fetches_too(authority: Authority) -> None:
    @run
    async def scenario() -> None:
        async with (
            raw_server(answering(answer())) as server,
            forward_proxy(tls=authority.server("127.0.0.1")) as proxy,
            through(proxy.port, scheme="https", verify=authority.client()) as send,
        ):
            assert await ask(send, f"http://{NAME}:{server.port}/") == b"hello"
            assert proxy.lines == [f"POST http://{NAME}:{server.port}/ HTTP/1.1"]

    scenario()


@run
async def test_what_the_proxy_answers_for_a_server_is_an_answer_but_a_407_is_its_own() -> None:
    refused = answer(b"no way", status="502 Bad Gateway")
    async with raw_server(answering(refused)) as proxy, through(proxy.port) as send:
        response = await send("GET", f"http://{NAME}/", {})
        assert (response.status, await response.read(100)) == (502, b"no way")
    async with raw_server(answering(answer(status="407 Who"))) as proxy, through(proxy.port) as send:
        words = r"requires authorization \(HTTP 407\): put user and password into its URL"
        with pytest.raises(TransportError, match=words) as caught:
            await ask(send, f"http://{NAME}/")
        assert caught.value.cause == "proxy"


@run
async def test_a_407_on_a_reused_connection_is_distinguished_from_a_response() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(answer())
        await peer.request()
        peer.send(answer(status="407 Who"))

    async with raw_server(script) as proxy, through(proxy.port) as send:
        assert await ask(send, f"http://{NAME}/") == b"hello"
        with pytest.raises(TransportError, match="requires authorization"):
            await ask(send, f"http://{NAME}/")
        assert len(proxy.peers) == 1


# --- https: the proxy opens a tunnel -------------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True])
def test_an_https_url_is_reached_through_a_tunnel(authority: Authority, secure: bool) -> None:
    tls = authority.server("127.0.0.1") if secure else None

    @run
    async def scenario() -> None:
        async with (
            raw_server(answering(answer(b"x" * 300_000)), tls=authority.server(NAME)) as server,
            forward_proxy(user="me:secret", tls=tls) as proxy,
            through(
                proxy.port, user="me:secret@", scheme="https" if secure else "http", verify=authority.client()
            ) as send,
        ):
            url = f"https://{NAME}:{server.port}/mcp"
            for _ in range(3):
                response = await send("POST", url, {"Authorization": "Bearer t"}, b"y" * 300_000)
                assert await response.read(1 << 20) == b"x" * 300_000
            (head,) = proxy.heads
            assert head.split("\r\n") == [
                f"CONNECT {NAME}:{server.port} HTTP/1.1",
                f"Host: {NAME}:{server.port}",
                "User-Agent: dovetail",
                "Proxy-Authorization: Basic bWU6c2VjcmV0",
                "",
                "",
            ]
            (peer,) = server.peers
            assert len(peer.requests) == 3
            assert peer.requests[0][0].startswith("POST /mcp HTTP/1.1\r\n")
            assert header(peer.requests[0][0], "proxy-authorization") is None

    scenario()


def test_the_certificate_inside_a_tunnel_is_that_of_the_server(authority: Authority) -> None:
    @run
    async def scenario() -> None:
        async with (
            raw_server(answering(answer()), tls=authority.server("other.example")) as server,
            forward_proxy() as proxy,
            through(proxy.port, verify=authority.client()) as send,
        ):
            with pytest.raises(TransportError) as caught:
                await ask(send, f"https://{NAME}:{server.port}/")
            assert caught.value.cause == "tls"
            where = f"https://{NAME}:{server.port} (through the proxy http://127.0.0.1:{proxy.port})"
            assert caught.value.message.startswith(f"TLS connection to {where} failed: ")
            await until(lambda: not send.connections)

    scenario()


def test_a_proxy_whose_certificate_is_wrong_gets_no_request(authority: Authority) -> None:
    @run
    async def scenario() -> None:
        async with (
            forward_proxy(tls=authority.server("other.example")) as proxy,
            through(proxy.port, scheme="https", user="me:secret@", verify=authority.client()) as send,
        ):
            for url in (f"https://{NAME}/", f"http://{NAME}/"):
                with pytest.raises(TransportError) as caught:
                    await ask(send, url)
                assert caught.value.cause == "tls"
                name = f"the proxy https://127.0.0.1:{proxy.port}"
                assert caught.value.message.startswith(f"TLS connection to {name} failed: ")
            assert proxy.heads == []

    scenario()


@run
async def test_an_address_of_ipv6_is_written_in_brackets() -> None:
    heads: list[str] = []

    async def script(peer: Peer) -> None:
        heads.append((await peer.request())[0])
        peer.close()

    await failure(script, "https://[2001:db8::1]/")
    assert heads[0].startswith("CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n")


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "user", "words"),
    [
        ("407 Who", "", r"requires authorization \(HTTP 407 Who\): put user and password into its URL"),
        ("407 Who", "me:secret@", r"rejected the user and password of its URL \(HTTP 407 Who\)"),
        ("403 Forbidden", "", r"refused to connect to server\.example:443: HTTP 403 Forbidden$"),
        ("502", "me:secret@", r"refused to connect to server\.example:443: HTTP 502$"),
        ("302 Found", "", r"refused to connect to server\.example:443: HTTP 302 Found$"),
        ("500 " + "x" * 5000, "", r"HTTP 500 x{100}$"),
    ],
)
def test_a_refusal_names_the_proxy_and_never_its_password(status: str, user: str, words: str) -> None:
    @run
    async def scenario() -> None:
        error = await failure(says(answer(b"<h1>Sorry</h1>", status=status)), user=user)
        assert error.cause == "proxy"
        assert re.search(words, error.message)

    scenario()


@run
async def test_a_proxy_without_a_listener_is_named() -> None:
    async with raw_server(says()) as proxy:
        pass
    for url in (f"http://{NAME}/", f"https://{NAME}/"):
        async with through(proxy.port, user="me:secret@") as send:
            with pytest.raises(TransportError) as caught:
                await ask(send, url)
        assert caught.value.cause == "refused"
        assert caught.value.message == f"the proxy http://127.0.0.1:{proxy.port} refused the connection"


@run
async def test_a_proxy_that_cannot_be_found_is_named() -> None:
    async with HttpFetch(proxy="http://me:secret@nowhere.invalid:3128").session() as send:
        with pytest.raises(TransportError) as caught:
            await ask(send, f"https://{NAME}/")
    assert caught.value.cause == "unresolved"
    assert caught.value.message == "cannot resolve the host name of the proxy http://nowhere.invalid:3128"


# --- proxies without manners ---------------------------------------------------------------------------------------


def test_an_answer_to_connect_cut_anywhere_is_understood(authority: Authority) -> None:
    whole = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OPENED

    @run
    async def scenario() -> None:
        async with raw_server(answering(answer()), tls=authority.server(NAME)) as server:
            for cut in range(1, len(whole)):

                async def script(peer: Peer, cut: int = cut) -> None:
                    await peer.request()
                    await peer.drip(whole[:cut], whole[cut:])
                    await relay(peer, server.port)

                async with (
                    raw_server(script) as proxy,
                    through(proxy.port, verify=authority.client()) as send,
                ):
                    assert await ask(send, f"https://{NAME}:{server.port}/") == b"hello"

    scenario()


async def relay(peer: Peer, port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def back() -> None:
        while data := await reader.read(1 << 16):
            peer.send(data)

    returning = asyncio.create_task(back())
    try:
        while data := await peer.reader.read(1 << 16):
            writer.write(data)
    finally:
        returning.cancel()
        writer.transport.abort()
        await asyncio.wait([returning])


@pytest.mark.parametrize("end", [len(OPENED) - 1, 30, 12, 5, 0])
@pytest.mark.parametrize("reset", [False, True])
def test_a_proxy_that_disconnects_during_its_response_is_named(end: int, reset: bool) -> None:
    @run
    async def scenario() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.drip(OPENED[:end])
            if reset:
                peer.reset()
            else:
                peer.close()

        error = await failure(script)
        assert error.cause == "proxy"
        assert "closed the connection without a response to CONNECT" in error.message

    scenario()


RUDE = {
    "endless head": [b"HTTP/1.1 200 OK\r\n", *[b"X: " + b"x" * 20_000 + b"\r\n"] * 8],
    "endless line": [b"HTTP/1.1 200 " + b"x" * 65_000] * 4,
    "hints for ever": [b"HTTP/1.1 103 Hint\r\n\r\n" * 1000] * 10,
    "sent data after its response": [OPENED + b"x"],
    "a body": [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"],
    "another protocol": [b"SSH-2.0-OpenSSH_9.0\r\n\r\n"],
    "HTTP/2": [b"HTTP/2 200 OK\r\n\r\n"],
    "no status": [b"HTTP/1.1 OK\r\n\r\n"],
    "a switch": [b"HTTP/1.1 101 Switching Protocols\r\n\r\n"],
    "zeros": [bytes(ANSWER_HEAD // 2)] * 4,
}


@pytest.mark.parametrize("name", RUDE)
def test_a_proxy_that_breaks_the_rules_is_left(name: str) -> None:
    @run
    async def scenario() -> None:
        error = await failure(says(*RUDE[name]))
        assert error.cause == "proxy"
        assert len(error.message) < 300

    scenario()


@run
async def test_data_after_the_response_is_not_trusted_by_tls() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.drip(OPENED, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")

    assert (await failure(script)).cause in ("tls", "refused")


@run
async def test_a_proxy_that_says_nothing_is_given_up_with_the_request() -> None:
    gone = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.gone()
        gone.set()

    async with raw_server(script) as proxy, through(proxy.port) as send:
        with pytest.raises(TransportError, match=r"did not respond within 0\.05 s"):
            await send("GET", f"https://{NAME}/", {}, None, 0.05)
        await asyncio.wait_for(gone.wait(), HANG)
        assert not send.connections


@run
async def test_closing_the_pool_ends_a_tunnel_that_is_being_dug() -> None:
    asked = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.gone()

    async with raw_server(script) as proxy:
        async with through(proxy.port) as send:
            waiting = asyncio.create_task(ask(send, f"https://{NAME}/"))
            await asked.wait()
        with pytest.raises(TransportError) as caught:
            await waiting
        assert caught.value.cause == "closed"
        await turns()


def test_a_disconnect_by_the_server_inside_the_tunnel_is_not_a_proxy_failure(authority: Authority) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()

    @run
    async def scenario() -> None:
        async with (
            raw_server(script, tls=authority.server(NAME)) as server,
            forward_proxy() as proxy,
            through(proxy.port, verify=authority.client()) as send,
        ):
            with pytest.raises(TransportError) as caught:
                await ask(send, f"https://{NAME}:{server.port}/")
            assert caught.value.cause in ("eof", "reset")
            assert caught.value.message.startswith(f"https://{NAME}:{server.port} (through the proxy ")

    scenario()


def test_the_same_on_the_other_event_loop(authority: Authority) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def scenario(secure: bool, tls: ssl.SSLContext | None) -> None:
        scheme = "https" if secure else "http"
        async with (
            asyncio.timeout(HANG),
            raw_server(answering(answer()), tls=authority.server(NAME)) as server,
            forward_proxy(tls=tls) as proxy,
            through(proxy.port, scheme=scheme, verify=authority.client()) as send,
        ):
            for _ in range(2):
                assert await ask(send, f"https://{NAME}:{server.port}/") == b"hello"
            assert len(proxy.heads) == 1

    for secure in (False, True):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(scenario(secure, authority.server("127.0.0.1") if secure else None))
