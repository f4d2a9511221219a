"""HTTP requests to URLs that other parties name, bounded in address, size, time and redirects.

OAuth metadata, keys, introspection, client documents, OpenAPI descriptions and URL resources are fetched here. A public
party must not name a private address (SSRF). Every redirect is checked like the first URL. The connection goes to the
addresses that were checked, so a name that resolves differently later (DNS rebinding) changes nothing.
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
from .address_class import PUBLIC, highest, leads_inside
from .url_parts import address_of, same_origin, shown

REDIRECTS: Final = 3
"""Redirects of one request that are followed."""


REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
NETWORK_CAUSES: Final = frozenset({"refused", "unresolved", "tls", "eof", "reset", "proxy", "closed"})
"""Causes of a `TransportError` that the network is to blame for, and not what the peer sent."""


class BlockedAddress(TransportError):
    """The URL leads to an address that is more private than the party that names it."""

    def __init__(self, url: str) -> None:
        super().__init__(f"{shown(url)} leads into a private network", cause="blocked")


class Fetched(NamedTuple):
    """An answer that was read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str
    """Where it came from, after redirects."""


class AddressGuard:
    """Lets requests through to addresses that are no more private than that of ``named_by``.

    A server on this machine may name a URL on this machine; a server on the internet may not. A party without an
    address, such as a client that says where its metadata is (None), may name public addresses only. Link-local
    addresses, where clouds have their metadata, are never let through. How private ``named_by`` is, is decided once, by
    the first lookup that finds it.
    """

    def __init__(self, named_by: str | None, *, allow_private: bool) -> None:
        self._named_by = named_by
        self._allow_private = allow_private
        self._class: int | None = PUBLIC if named_by is None else None

    async def addresses(self, url: str) -> list[str] | None:
        """The addresses that a request to ``url`` may go to; None: any. A name without any has an empty list.

        Raises:
            BlockedAddress: nothing may be sent there.
        """
        if self._allow_private:
            return None
        addresses = await _look_up(url)
        found, base = highest(addresses), self._class
        if base is None:
            assert self._named_by is not None
            same = _host(url) == _host(self._named_by)
            known = addresses if same else await _look_up(self._named_by)
            base = highest(known)
            if known:
                self._class = base
        if found != PUBLIC and leads_inside(found, base):
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
    """Send one request and read the whole answer, whatever its status.

    Args:
        guard: None for a URL that the operator configured, which may lead anywhere.
        max_bytes: of the body. An error answer (400 and above) with a larger one comes without its body.
        timeout: seconds for everything: lookups, redirects and the body.
        headers: they go to the origin of ``url``; another origin gets ``Accept`` only.
        max_redirects: a request other than GET follows none.
        check: called with every URL before it is used; what it raises ends the fetch.
        send: None for a new pool of connections.

    Raises:
        TransportError: the fetch failed or exceeded a bound; `BlockedAddress` is a subclass.
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
        raise TransportError(f"no answer within {timeout:g} s", cause="timeout") from None


class _Follow(NamedTuple):
    """One request on its way through redirects."""

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
                raise TransportError(f"refusing the redirect to {shown(found)}", cause="redirect")
            url = found
        raise TransportError(f"it is redirected more than {self.max_redirects} times", cause="redirect")

    async def _once(self, send: Send, url: str) -> Fetched | str:
        """The answer, or the URL that it redirects to."""
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
        raise TransportError("it redirects without saying where to", cause="protocol")
    try:
        return urljoin(url, location)
    except ValueError:
        raise TransportError("it redirects to something that is not a URL", cause="protocol") from None


@asynccontextmanager
async def _pinned(send: Send, addresses: list[str] | None) -> AsyncGenerator[Send]:
    """``send`` for one host at ``addresses``. An application's `Send` that cannot be pinned looks names up itself."""
    if addresses is None or not isinstance(send, Pinnable):
        yield send
    else:
        async with send.pinned(addresses) as pinned:
            yield pinned


async def _look_up(url: str) -> list[str]:
    """The addresses of the host of ``url``; empty when the name cannot be resolved here."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(_host(url), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""
