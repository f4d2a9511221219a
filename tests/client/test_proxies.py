"""A client with an HTTP proxy, and the certificates it accepts: http, https, ws, wss and tls."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client
from dovetail.client.connecting.server_cache import ServerCache
from dovetail.errors import SessionLost, TransportError

from ..support.aio import run
from ..support.certificates import Authority
from ..support.everything import build
from ..support.proxy import ForwardProxy, forward_proxy
from ..support.web import served
from .fake_http import modern, serving
from .test_websocket import plain
from .test_websocket import serving as serving_websocket

NAME = "server.example"
"""A server that only the proxy can find."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def client(url: str, **options: Any) -> Client:
    return Client(url, server_cache=ServerCache(), reconnect=False, **options)


def named(url: str) -> str:
    return url.replace("127.0.0.1", NAME)


# --- the environment -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["modern", "2025-06-18"])
@run
async def test_a_session_with_input_requests_and_progress_through_a_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    async with served(build(), allowed_hosts=(NAME,)) as site, forward_proxy(user="me:secret") as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:secret@127.0.0.1:{proxy.port}")
        async with client(
            f"http://{NAME}:{site.port}/mcp",
            revision=revision,
            on_sample=lambda request: "sampled",
        ) as connected:
            seen: list[float] = []
            await connected.call_tool("count", on_progress=lambda progress, *_: seen.append(progress))
            assert seen == [1, 2, 3]
            assert (await connected.call_tool("think")).text == "sampled"
        assert proxy.heads
        assert all(f" http://{NAME}:{site.port}/mcp HTTP/1.1" in line for line in proxy.lines)


@run
async def test_what_no_proxy_names_and_what_runs_here_is_reached_directly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(modern) as (_, url), forward_proxy() as proxy:
        monkeypatch.setenv("ALL_PROXY", f"127.0.0.1:{proxy.port}")
        async with client(url) as connected:
            await connected.call_tool("x")
        async with client(url.replace("127.0.0.1", "localhost")) as connected:
            await connected.call_tool("x")
        assert proxy.heads == []
        monkeypatch.setenv("NO_PROXY", "example")
        with pytest.raises(TransportError) as caught:
            await client(named(url)).open()
        assert caught.value.cause == "unresolved"
        assert proxy.heads == []


@run
async def test_a_proxy_of_the_application_beats_the_environment_and_false_ignores_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(modern) as (_, url), forward_proxy() as proxy, forward_proxy() as other:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{other.port}")
        monkeypatch.setenv("NO_PROXY", "*")
        async with client(url, proxy=f"http://127.0.0.1:{proxy.port}") as connected:
            await connected.call_tool("x")
        assert proxy.heads
        monkeypatch.delenv("NO_PROXY")
        with pytest.raises(TransportError):
            await client(named(url), proxy=False).open()
        assert other.heads == []


def test_a_proxy_that_cannot_be_used_is_said_at_once() -> None:
    for url in ("http://server.example/mcp", "ws://server.example/mcp"):
        with pytest.raises(ValueError, match="proxy names a SOCKS proxy"):
            Client(url, proxy="socks5://127.0.0.1:1080")
    with pytest.raises(ValueError, match="settings of that HTTP client"):
        Client("http://server.example/mcp", http=object(), proxy="http://127.0.0.1:1")
    with pytest.raises(ValueError, match="settings of that HTTP client"):
        Client("http://server.example/mcp", http=object(), ssl=ssl.create_default_context())


@pytest.mark.parametrize("scheme", ["http", "https", "ws", "wss"])
@run
async def test_a_refusal_of_the_proxy_reaches_the_caller(scheme: str) -> None:
    async with forward_proxy(user="me:secret") as proxy:
        url = f"{scheme}://{NAME}:9/mcp"
        with pytest.raises(TransportError, match="rejected the user and password") as caught:
            await client(url, proxy=f"http://me:wrong@127.0.0.1:{proxy.port}").open()
        assert caught.value.cause == "proxy"
        assert f"http://127.0.0.1:{proxy.port}" in caught.value.message
        assert "wrong" not in str(caught.value)


@run
async def test_a_call_that_the_proxy_refused_was_not_executed() -> None:
    async with serving(modern) as (fake, url), forward_proxy() as proxy:
        async with client(url, proxy=f"http://127.0.0.1:{proxy.port}") as connected:
            await connected.call_tool("x")
            proxy.user = "me:secret"
            with pytest.raises(SessionLost, match="requires authorization") as caught:
                await connected.call_tool("x")
            assert (caught.value.cause, caught.value.maybe_executed) == ("proxy", False)
            proxy.user = None
            await connected.call_tool("x")
        assert fake.heard().count("tools/call") == 2


# --- WebSocket -----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def behind_proxy(tls: ssl.SSLContext | None) -> AsyncIterator[tuple[str, ForwardProxy]]:
    async with serving_websocket(plain, ssl=tls) as url, forward_proxy(user="me:secret") as proxy:
        yield (named(url) if tls is None else named(url).replace("ws:", "wss:")), proxy


@pytest.mark.parametrize("secure", [False, True])
def test_a_websocket_is_reached_through_a_tunnel(
    monkeypatch: pytest.MonkeyPatch, authority: Authority, secure: bool
) -> None:
    @run
    async def scenario() -> None:
        tls = authority.server(NAME) if secure else None
        async with behind_proxy(tls) as (url, proxy):
            variable = "HTTPS_PROXY" if secure else "HTTP_PROXY"
            monkeypatch.setenv(variable, f"http://me:secret@127.0.0.1:{proxy.port}")
            options = {"ssl": authority.client()} if secure else {}
            async with client(url, revision="modern", **options) as connected:
                results = await asyncio.gather(*(connected.call_tool("x") for _ in range(5)))
                assert {result.text for result in results} == {"hi"}
            (line,) = proxy.lines
            port = url.rpartition(":")[2].partition("/")[0]
            assert line == f"CONNECT {NAME}:{port} HTTP/1.1"

    scenario()


def test_a_websocket_whose_server_is_not_believed_fails_once(authority: Authority) -> None:
    complaints: list[dict[str, Any]] = []

    @run
    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        async with behind_proxy(authority.server("other.example")) as (url, proxy):
            with pytest.raises(
                TransportError, match=r"\(through the proxy http://127.*certificate"
            ) as caught:
                await client(url, proxy=f"http://me:secret@127.0.0.1:{proxy.port}").open()
            assert caught.value.cause == "tls"
            del caught  # it holds what is to be collected
            await asyncio.sleep(0)
            gc.collect()

    scenario()
    assert complaints == []


# --- certificates --------------------------------------------------------------------------------------------------


def hashed(authority: Authority, folder: Path) -> Path:
    """A folder as ``SSL_CERT_DIR`` wants it: the file has the hash of its subject as its name."""
    import subprocess

    made = subprocess.run(
        ["openssl", "x509", "-noout", "-subject_hash", "-in", authority.path], capture_output=True
    )
    if made.returncode:
        pytest.skip("openssl cannot say the hash of a certificate here")
    (folder / f"{made.stdout.decode().strip()}.0").write_bytes(authority.path.read_bytes())
    return folder


@pytest.mark.parametrize("variable", [None, "SSL_CERT_FILE", "SSL_CERT_DIR"])
@pytest.mark.parametrize("scheme", ["https", "wss", "tls"])
def test_an_authority_of_the_environment_is_believed(
    monkeypatch: pytest.MonkeyPatch, authority: Authority, tmp_path: Path, scheme: str, variable: str | None
) -> None:
    if variable is not None:
        path = authority.path if variable == "SSL_CERT_FILE" else hashed(authority, tmp_path)
        monkeypatch.setenv(variable, str(path))

    @run
    async def scenario() -> None:
        async with secured(scheme, authority) as url:
            if variable is not None:
                async with client(url) as connected:
                    await connected.call_tool("add", {"a": 1, "b": 2})
                return
            with pytest.raises(TransportError, match=r"(?i)certificate") as caught:
                await client(url).open()
            assert caught.value.cause == "tls"

    scenario()


@asynccontextmanager
async def secured(scheme: str, authority: Authority) -> AsyncIterator[str]:
    if scheme == "tls":
        from dovetail.transports import tcp

        listener = await tcp.listen(build().dispatcher, ssl=authority.server("127.0.0.1"))
        try:
            yield f"tls://127.0.0.1:{listener.address[1]}"
        finally:
            await listener.close()
    else:
        path = str(authority.certificate("127.0.0.1"))
        async with served(build(), certfile=path, keyfile=path) as site:
            yield f"{scheme}://127.0.0.1:{site.port}/mcp"
