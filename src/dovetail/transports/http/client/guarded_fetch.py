"""Guarded fetch: HTTP requests to URLs that other parties provide, limited in address, size, time and
redirects.

OAuth metadata, keys, introspection, client documents, OpenAPI descriptions and URL resources are fetched
here. A public party must not name a private address (SSRF). Every redirect is checked like the first URL. The
connection uses the checked addresses, so a later change of the name (DNS rebinding) has no effect.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from ....client.http_client import Pinnable, Response, Send
from ....errors import TransportError
from .address_class import PUBLIC, more_private, privacy_level
from .url_parts import address_of, displayed, same_origin

REDIRECTS: Final = 3
"""Redirects of one request that are followed."""


REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
NETWORK_CAUSES: Final = frozenset({"refused", "unresolved", "tls", "eof", "reset", "proxy", "closed"})
"""Causes of a `TransportError` that are network failures, not protocol violations by the peer."""


class BlockedAddress(TransportError):
    """The URL leads to an address that is more private than the party that provided it."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"{displayed(url)} leads to a private network address; it was blocked", cause="blocked"
        )


class Fetched(NamedTuple):
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str
    """The URL of the response, after redirects."""


class AddressGuard:
    """Allows requests to addresses that are not more private than that of ``named_by``.

    A server on this machine may name a URL on this machine; a server on the internet may not. A party without
    an address (None), such as a client with a metadata URL, may name public addresses only. Link-local
    addresses, where clouds serve metadata, are never allowed. The privacy level of ``named_by`` is determined
    once, by its first lookup.
    """

    def __init__(self, named_by: str | None, *, allow_private: bool) -> None:
        self._named_by = named_by
        self._allow_private = allow_private
        self._class: int | None = PUBLIC if named_by is None else None

    async def addresses(self, url: str) -> list[str] | None:
        """Return the addresses allowed for ``url``; None: any. An unresolvable name returns an empty list.

        Raises:
            BlockedAddress: the host is more private than allowed.
        """
        if self._allow_private:
            return None
        addresses = await _look_up(url)
        found, base = privacy_level(addresses), self._class
        if base is None:
            assert self._named_by is not None
            same = _host(url) == _host(self._named_by)
            known = addresses if same else await _look_up(self._named_by)
            base = privacy_level(known)
            if known:
                self._class = base
        if found != PUBLIC and more_private(found, base):
            raise BlockedAddress(url)
        return addresses


async def guarded_fetch(
    url: str,
    *,
    guard: AddressGuard | None,
    max_bytes: int,
    timeout: float,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    max_redirects: int = 0,
    check: Callable[[str], object] | None = None,
    send: Send | None = None,
) -> Fetched:
    """Send one request and read the whole response, whatever its status.

    Args:
        guard: None for a URL that the operator configured, which is not restricted.
        max_bytes: of the body. A larger body of an error response (400 and above) is dropped.
        timeout: seconds for everything: lookups, redirects and the body.
        headers: sent to the origin of ``url``; another origin gets ``Accept`` only.
        max_redirects: a request other than GET follows none.
        check: called with every URL before it is used; its exceptions end the fetch.
        send: None for a new pool of connections.

    Raises:
        TransportError: the fetch failed or exceeded a limit; `BlockedAddress` is a subclass.
    """
    follow = _Follow(url, guard, max_bytes, method, headers or {}, body, max_redirects, check)
    try:
        async with asyncio.timeout(timeout):
            if send is not None:
                return await follow.fetch(send)
            from .connection_pool import HttpFetch  # only a fetch needs the HTTP client

            async with HttpFetch().session() as own:
                return await follow.fetch(own)
    except TimeoutError:
        raise TransportError(f"no response within {timeout:g} s", cause="timeout") from None


class _Follow(NamedTuple):
    """One request and its redirects."""

    url: str
    guard: AddressGuard | None
    max_bytes: int
    method: str
    headers: Mapping[str, str]
    body: bytes | None
    max_redirects: int
    check: Callable[[str], object] | None

    async def fetch(self, send: Send) -> Fetched:
        url = self.url
        for _ in range(self.max_redirects + 1):
            found = await self._once(send, url)
            if isinstance(found, Fetched):
                return found
            if self.method != "GET" or not self.max_redirects:
                raise TransportError(f"the redirect to {displayed(found)} is not allowed", cause="redirect")
            url = found
        raise TransportError(f"more than {self.max_redirects} redirects", cause="redirect")

    async def _once(self, send: Send, url: str) -> Fetched | str:
        """Return the response, or the URL that it redirects to."""
        if self.check is not None:
            self.check(url)
        address_of(url)  # an http or https URL, or an error
        addresses = None if self.guard is None else await self.guard.addresses(url)
        headers = self.headers
        if not same_origin(self.url, url):
            headers = {name: value for name, value in headers.items() if name.lower() == "accept"}
        async with _pinned(send, addresses) as send_there:
            response = await send_there(self.method, url, headers, self.body)
            try:
                if response.status in REDIRECT_STATUSES:
                    return _location(response, url)
                return Fetched(response.status, response.headers, await self._read(response), url)
            finally:
                response.close()

    async def _read(self, response: Response) -> bytes:
        try:
            return await response.read(self.max_bytes)
        except TransportError:
            if response.status < 400:
                raise
            return b""


def _location(response: Response, url: str) -> str:
    location = response.headers.get("Location")
    if not location:
        raise TransportError("the redirect has no Location header", cause="protocol")
    try:
        return urljoin(url, location)
    except ValueError:
        raise TransportError("the Location header of the redirect is not a URL", cause="protocol") from None


@asynccontextmanager
async def _pinned(send: Send, addresses: list[str] | None) -> AsyncGenerator[Send]:
    """Restrict ``send`` to one host at ``addresses``.

    An application's `Send` without this feature resolves names itself.
    """
    if addresses is None or not isinstance(send, Pinnable):
        yield send
    else:
        async with send.pinned(addresses) as pinned:
            yield pinned


async def _look_up(url: str) -> list[str]:
    """Return the addresses of the host of ``url``; empty if the name cannot be resolved here."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(_host(url), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""
