"""Connections that cannot be made, and those that must be secure."""

import asyncio
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from dovetail.errors import TransportError
from dovetail.transports.http.client.connection_pool import HttpFetch
from tests.http.raw_server import Peer, answer, answering, ask, raw_server, session, turns
from tests.support.aio import run
from tests.support.held import descriptors
from tests.support.waiting import HANG


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    public, key = folder / "cert.pem", folder / "key.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", key, "-out", public, "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        capture_output=True,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("openssl cannot make a certificate here")
    return public, key


@pytest.fixture
def server_side(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


async def failure(url: str, fetch: HttpFetch | None = None) -> TransportError:
    async with (fetch or HttpFetch()).session() as send:
        with pytest.raises(TransportError) as caught:
            async with asyncio.timeout(HANG):
                await ask(send, url)
    assert "secret" not in caught.value.message
    return caught.value


def test_an_untrusted_certificate_is_refused(server_side: ssl.SSLContext) -> None:
    @run
    async def scenario() -> None:
        async with raw_server(answering(answer()), tls=server_side) as server:
            url = f"https://user:secret@127.0.0.1:{server.port}/"
            error = await failure(url)
            assert error.cause == "tls"
            assert error.message.startswith(f"TLS connection to https://127.0.0.1:{server.port} failed: ")
            assert "certificate" in error.message
            assert not server.peers

    scenario()


def test_a_context_of_the_application_decides(
    server_side: ssl.SSLContext, certificate: tuple[Path, Path]
) -> None:
    @run
    async def scenario() -> None:
        trusting = ssl.create_default_context(cafile=str(certificate[0]))
        async with raw_server(answering(answer()), tls=server_side) as server:
            for verify in (trusting, False):
                async with HttpFetch(verify=verify).session() as send:
                    for _ in range(3):
                        assert await ask(send, server.url) == b"hello"
            assert [len(peer.requests) for peer in server.peers] == [3, 3]

    scenario()


def test_trusting_all_commands_in_one_session_does_not_affect_the_next(server_side: ssl.SSLContext) -> None:
    @run
    async def scenario() -> None:
        async with raw_server(answering(answer()), tls=server_side) as server:
            async with HttpFetch(verify=False).session() as send:
                assert await ask(send, server.url) == b"hello"
            assert (await failure(server.url)).cause == "tls"

    scenario()


def test_large_answers_and_requests_pass_through_a_secure_connection(server_side: ssl.SSLContext) -> None:
    body = bytes(range(256)) * (4 << 12)

    @run
    async def scenario() -> None:
        async def script(peer: Peer) -> None:
            while True:
                _, asked = await peer.request()
                whole = answer(asked)
                await peer.drip(whole[:10], whole[10:70_000], whole[70_000:])

        async with (
            raw_server(script, tls=server_side) as server,
            HttpFetch(verify=False).session() as send,
        ):
            for _ in range(2):
                assert await ask(send, server.url, body=body, limit=len(body)) == body
            assert len(server.peers) == 1

    scenario()


def test_a_secure_connection_that_breaks_off_or_is_given_up_is_closed(server_side: ssl.SSLContext) -> None:
    @run
    async def scenario() -> None:
        given_up = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            peer.send(answer(b"hello")[:-2])
            if peer.number:
                await peer.gone()
                given_up.set()

        async with (
            raw_server(script, tls=server_side) as server,
            HttpFetch(verify=False).session() as send,
        ):
            with pytest.raises(TransportError) as caught:
                await ask(send, server.url)
            assert caught.value.cause == "reset"
            response = await send("POST", server.url, {}, b"{}")
            response.close()
            await asyncio.wait_for(given_up.wait(), HANG)

    scenario()


def test_a_server_that_requires_a_client_certificate_is_a_tls_error(
    server_side: ssl.SSLContext, certificate: tuple[Path, Path]
) -> None:
    server_side.verify_mode = ssl.CERT_REQUIRED
    server_side.load_verify_locations(certificate[0])

    def refuse(listener: socket.socket) -> None:
        """In a thread: unlike asyncio, it says why it hangs up."""
        connection, _ = listener.accept()
        with connection.dup() as rest:
            with pytest.raises(ssl.SSLError), connection:
                server_side.wrap_socket(connection, server_side=True)
            while rest.recv(1 << 16):  # what is left unread would reset the connection and its last words
                pass

    @run
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            refusing = asyncio.create_task(asyncio.to_thread(refuse, listener))
            error = await failure(f"https://127.0.0.1:{listener.getsockname()[1]}/", HttpFetch(verify=False))
            await refusing
        assert error.cause == "tls"
        assert "certificate" in error.message.lower()

    scenario()


@run
async def test_plain_http_where_a_secure_connection_was_wanted_is_an_error_of_tls() -> None:
    async def script(peer: Peer) -> None:
        peer.send(answer(status="400 Bad Request"))
        await peer.gone()

    async with raw_server(script) as server:
        assert (await failure(f"https://127.0.0.1:{server.port}/")).cause == "tls"


@run
async def test_a_server_that_disconnects_during_the_handshake_is_named() -> None:
    async def script(peer: Peer) -> None:
        await turns()

    async with raw_server(script) as server:
        error = await failure(f"https://127.0.0.1:{server.port}/")
        assert error.cause in ("refused", "tls")
        assert str(server.port) in error.message


@run
async def test_a_port_without_a_listener_refuses_the_connection() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        error = await failure(f"http://user:secret@127.0.0.1:{port}/secret")
        assert (error.cause, error.message) == ("refused", f"http://127.0.0.1:{port} refused the connection")
        assert (await failure(f"http://localhost:{port}/")).cause == "refused"


@pytest.mark.parametrize("host", ["nowhere.invalid", "a" * 64 + ".invalid", "a..b"])
def test_a_name_that_means_nothing_is_unresolved(host: str) -> None:
    @run
    async def scenario() -> None:
        error = await failure(f"http://user:secret@{host}/")
        assert (error.cause, error.message) == (
            "unresolved",
            f"cannot resolve the host name of http://{host}",
        )

    scenario()


@run
async def test_giving_up_while_connecting_leaves_nothing() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        url = f"https://127.0.0.1:{deaf.getsockname()[1]}/"
        async with session() as send:
            before = descriptors()
            with pytest.raises(TransportError, match=r"did not respond within 0\.05 s"):
                await send("GET", url, {}, None, 0.05)
            await turns()
            assert descriptors() == before
