"""Login with the user's browser, and the loopback port that receives its redirect (RFC 8252).

A redirect with an unknown or used state is answered with an error page and does not affect the login.
"""

from __future__ import annotations

import asyncio
import html
import inspect
import sys
import webbrowser
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from ..core import oauth_urls
from ..core.auth_errors import AuthError
from ..core.authorization import same_state
from ..core.steps import Show

LOGIN_SECONDS: Final = 300.0
"""Timeout of a login in seconds."""
CALLBACK_SIZE: Final = 16 << 10
"""Size limit of the redirect request in bytes."""
CALLBACK_CONNECTIONS: Final = 32
"""Concurrent connections to the loopback port."""
CALLBACK_TIMEOUT: Final = 10.0
"""Timeout of one connection in seconds."""


PATH = "/callback"
_HEAD = (
    "Content-Type: text/html; charset=utf-8\r\nContent-Security-Policy: default-src 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n"
    "Connection: close\r\n"
)


def open_browser(url: str) -> bool:
    """Open a web page. Return whether a browser was found; the variable ``BROWSER`` selects one.

    Raises:
        AuthError: the URL is not a web page: other schemes would start programs.
    """
    oauth_urls.split(url, "the page to open", "authorization server")
    return webbrowser.open(url)


class Callback:
    """A loopback port that waits for the redirect of one login."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._came: asyncio.Future[str] | None = None
        self._state: str | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.redirect_uri = ""

    async def start(self, known: str | None) -> str:
        """Listen, on the port of ``known`` if it is free. Return the redirect URI.

        Raises:
            AuthError: the requested port is in use.
        """
        ports = [self._port] if self._port else [*_loopback_port(known), 0]
        for port in ports:
            try:
                self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=CALLBACK_SIZE)
                break
            except OSError as error:
                if port == ports[-1]:
                    raise AuthError(f"port {port} is in use: {error.strerror}", fault="client") from None
        assert self._server is not None
        self.redirect_uri = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{PATH}"
        self._came = asyncio.get_running_loop().create_future()
        return self.redirect_uri

    async def wait(self, state: str) -> str:
        """Return the URL of the redirect with this ``state``.

        Raises:
            AuthError: it did not arrive in time.
        """
        assert self._came is not None
        self._state = state
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                return await asyncio.shield(self._came)
        except TimeoutError:
            why = f"no login within {LOGIN_SECONDS:g} s"
            raise AuthError(why, fault="user", advice="was the page opened?") from None

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            while self._open:  # noqa: ASYNC110  each is closed by its own task within `CALLBACK_TIMEOUT`
                await asyncio.sleep(0.01)
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            if len(self._open) <= CALLBACK_CONNECTIONS:
                async with asyncio.timeout(CALLBACK_TIMEOUT):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        path, _, query = (words[1] if len(words) == 3 else "").partition("?")
        if words[0] != "GET" or path != PATH:
            return _page(404, "Not found", "There is nothing here.")
        given = parse_qs(query, keep_blank_values=True)
        if self._state is None or not same_state(given.get("state", [""])[0], self._state):
            return _page(
                400, "Not this login", "This page belongs to another login. Go back to the newest one."
            )
        if self._came is None or self._came.done():
            return _page(400, "Used already", "This login has been used already.")
        self._came.set_result(f"{self.redirect_uri}?{query}")
        if "error" in given:
            return _page(200, "Not authorized", "The login was refused. You can close this window.")
        return _page(200, "Logged in", "You can close this window and go back.")


def _page(status: int, title: str, text: str) -> bytes:
    body = f"<!doctype html><title>{html.escape(title)}</title><h1>{html.escape(title)}</h1><p>{html.escape(text)}</p>"
    reason = {200: "OK", 400: "Bad Request", 404: "Not Found"}[status]
    return f"HTTP/1.1 {status} {reason}\r\n{_HEAD}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def _loopback_port(uri: str | None) -> list[int]:
    """Return the port of an earlier registration: authorization servers may insist on it."""
    parts = urlsplit(uri or "")
    ours = parts.scheme == "http" and parts.hostname == "127.0.0.1" and parts.path == PATH
    return [parts.port] if ours and parts.port else []


class Browser:
    """A user with a browser on this machine.

    ``opener`` gets the URL to visit. If it is None or returns False, the URL is shown on stderr.
    """

    def __init__(self, port: int, opener: Callable[[str], Any] | None) -> None:
        self._callback = Callback(port)
        self._opener = opener

    async def listen(self, known: str | None) -> str:
        return await self._callback.start(known)

    async def browse(self, url: str, redirect_uri: str, state: str) -> str:
        oauth_urls.split(url, "the page to open", "authorization server")
        waiting = asyncio.ensure_future(self._callback.wait(state))
        try:
            opened: Any = False
            if self._opener is open_browser:
                opened = await asyncio.to_thread(open_browser, url)
            elif self._opener is not None:
                opened = self._opener(url)
                opened = await opened if inspect.isawaitable(opened) else opened
            if opened is False:
                sys.stderr.write(f"Open this page to log in:\n{url}\n")
            return await waiting
        finally:
            waiting.cancel()

    async def show(self, page: Show) -> None:
        raise AssertionError("a browser login shows no code")

    async def close(self) -> None:
        await self._callback.close()


class Hook:
    """A user reached by a function of the application, which gets a URL and returns the URL of the redirect."""

    def __init__(self, authorize: Callable[[str], Any], redirect_uri: str) -> None:
        self._authorize = authorize
        self._redirect_uri = redirect_uri

    async def listen(self, known: str | None) -> str:
        return self._redirect_uri

    async def browse(self, url: str, redirect_uri: str, state: str) -> str:
        found = self._authorize(url)
        if inspect.isawaitable(found):
            found = await found
        if not isinstance(found, str):
            raise AuthError(
                "authorize must return the redirect URL that the browser was sent to", fault="client"
            )
        return found.strip()

    async def show(self, page: Show) -> None:
        raise AssertionError("a browser login shows no code")

    async def close(self) -> None: ...


class Screen:
    """A user who gets a code to enter on any device."""

    def __init__(self, show: Callable[[str], Any]) -> None:
        self._show = show

    async def listen(self, known: str | None) -> str:
        raise AssertionError("nobody comes back")

    async def browse(self, url: str, redirect_uri: str, state: str) -> str:
        raise AssertionError("nobody comes back")

    async def show(self, page: Show) -> None:
        text = f"Visit {page.verification_uri} and enter the code {page.user_code}"
        if page.complete is not None:
            text += f"\n(or visit {page.complete})"
        text = "".join(each for each in text if each.isprintable() or each == "\n")
        shown = self._show(text)
        if inspect.isawaitable(shown):
            await shown
        sys.stdout.flush()  # show it now: a pipe buffers the output of `print`

    async def close(self) -> None: ...
