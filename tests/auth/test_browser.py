"""The port that a browser comes back to: one login, one state, once; and pages that are opened, or not."""

import asyncio
import webbrowser
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from dovetail.auth import AuthError, MemoryTokens, OAuth
from dovetail.auth.client.browser import CALLBACK_SIZE, open_browser
from dovetail.transports.http.client.connection_pool import HttpFetch

from .provider import Provider, client, log_in, visit
from .test_login_refused import NO_PAGES
from .test_proxy_login import run


async def fetch(url: str, method: str = "GET") -> tuple[int, str]:
    async with HttpFetch().session() as send:
        response = await send(method, url, {})
        body = await response.read(10_000)
        response.close()
        return response.status, body.decode()


def with_browser(browse: Callable[[str], Awaitable[Any]], **options: Any) -> OAuth:
    return OAuth(store=MemoryTokens(), open_browser=browse, **options)


def test_the_browser_comes_back_and_may_close_its_window() -> None:
    async def test(provider: Provider) -> None:
        pages: list[tuple[int, str]] = []

        async def browse(url: str) -> None:
            pages.append(await fetch(await visit(url)))

        await log_in(provider, with_browser(browse))
        ((status, page),) = pages
        assert status == 200
        assert "close this window" in page
        redirect = urlsplit(provider.authorizations()[0]["redirect_uri"])
        assert (redirect.scheme, redirect.hostname, redirect.path) == ("http", "127.0.0.1", "/callback")

    run(test)


def test_a_browser_with_another_state_changes_nothing() -> None:
    async def test(provider: Provider) -> None:
        statuses: list[int] = []

        async def browse(url: str) -> None:
            back = await visit(url)
            base = back.partition("?")[0]
            wrong = (base, f"{base}?code=x", f"{base}?code=x&state=of-another", f"{base}/more?state=x")
            statuses.extend([(await fetch(each))[0] for each in wrong])
            statuses.append((await fetch(back, "POST"))[0])
            statuses.extend([(await fetch(back))[0] for _ in range(2)])

        await log_in(provider, with_browser(browse))
        assert statuses == [400, 400, 400, 404, 404, 200, 400]
        assert len(provider.forms()) == 1

    run(test)


@pytest.mark.parametrize(
    "data", [b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01" * 50 + b"\r\n\r\n", b"x" * (CALLBACK_SIZE * 2)]
)
def test_unauthenticated_requests_to_the_callback_port_change_nothing(data: bytes) -> None:
    async def test(provider: Provider) -> None:
        async def browse(url: str) -> None:
            back = await visit(url)
            port = urlsplit(back).port
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            try:
                await reader.read()
            except ConnectionError:
                pass
            writer.close()
            await fetch(back)

        await log_in(provider, with_browser(browse))

    run(test)


def test_the_port_is_free_again_after_the_login() -> None:
    async def test(provider: Provider) -> None:
        async def browse(url: str) -> None:
            await fetch(await visit(url))

        await log_in(provider, with_browser(browse))
        port = urlsplit(provider.authorizations()[0]["redirect_uri"]).port
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    run(test)


def test_a_registration_is_used_again_with_the_port_it_was_made_for() -> None:
    async def test(provider: Provider) -> None:
        async def browse(url: str) -> None:
            await fetch(await visit(url))

        store = MemoryTokens()
        for _ in range(2):
            await log_in(provider, OAuth(store=store, open_browser=browse))
            provider.granted.clear()
            provider.refreshable.clear()
        first, second = provider.authorizations()
        assert first["redirect_uri"] == second["redirect_uri"]
        assert first["client_id"] == second["client_id"]

    run(test)


def test_a_port_in_use_is_reported() -> None:
    async def test(provider: Provider) -> None:
        taken = urlsplit(provider.base).port
        with pytest.raises(AuthError, match=f"port {taken}"):
            await log_in(provider, OAuth(store=MemoryTokens(), redirect_port=taken or 0))

    run(test)


def test_a_user_who_never_comes_back_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.auth.client.browser.LOGIN_SECONDS", 0.05)

    async def test(provider: Provider) -> None:
        async def browse(url: str) -> None: ...

        with pytest.raises(AuthError, match="no login within"):
            await log_in(provider, with_browser(browse))

    run(test)


def test_without_a_browser_the_page_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    async def test(provider: Provider) -> None:
        async def enter() -> None:
            auth = OAuth(store=MemoryTokens(), open_browser=None)
            async with client(provider, auth) as connected:
                await connected.list_tools()

        task = asyncio.create_task(enter())
        shown = ""
        while "http" not in shown.partition("\n")[2]:
            await asyncio.sleep(0)
            shown += capfd.readouterr().err
        await fetch(await visit(shown.split()[-1]))
        await task

    run(test)


@pytest.mark.parametrize("url", [url for url in NO_PAGES if not url.startswith("http://id")])
def test_what_is_no_web_page_is_never_opened(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    with pytest.raises(AuthError):
        open_browser(url)
    assert opened == []


def test_the_page_reaches_the_browser_unaltered(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    url = "https://id.example/authorize?a=1&b=%24(touch%20x)"
    assert open_browser(url) is True
    assert opened == [url]
    assert dict(parse_qsl(urlsplit(url).query))["b"] == "$(touch x)"
