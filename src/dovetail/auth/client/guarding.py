"""Where requests may go that others name: neither a server nor a client must lead us into our own network."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from ...client.fetch import Pinnable, Send
from ..core import urls
from ..core.problems import AuthError, Fault

PUBLIC, PRIVATE, LOOPBACK, NEVER = range(4)

_INSIDE = [
    ipaddress.ip_network(network)
    for network in ("100.64.0.0/10", "192.0.0.0/24", "168.63.129.16/32", "fec0::/10")
]
"""What no list calls private, and yet is: of carriers, of protocols, of a cloud's own host, of sites in the old way."""
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


class AddressGuard:
    """Lets requests through to addresses that are no more private than that of the ``server`` which names them.

    A server on this machine may name an authorization server on this machine; one on the internet may not. Whoever has
    no address of its own, such as a client that says where its metadata lies (None), may name public ones alone.
    Addresses of links (the metadata of clouds lies there), groups and nobody are never let through.
    """

    def __init__(self, server: str | None, *, allow_private: bool) -> None:
        self._server = server
        self._allow = allow_private
        self._level: int | None = None

    async def check(self, url: str, what: str, fault: Fault) -> list[str] | None:
        """The addresses that a request to ``url`` may go to; None: any. A name without any has an empty list.

        Whoever connects uses these and does not look the name up again: the next answer may be another one.

        Raises:
            AuthError: nothing is to be sent there.
        """
        urls.secure(url, what, fault)
        if self._allow:
            return None
        addresses = await addresses_of(url)
        level = highest(addresses)
        if level == PUBLIC:
            return addresses
        if self._level is None:
            self._level = PUBLIC if self._server is None else highest(await addresses_of(self._server))
        if level == NEVER or level > self._level:
            raise AuthError(
                f"{what} lies in a private network ({urls.origin(url)}), and whoever names it does not",
                fault=fault,
                advice="give allow_private=True if that is meant to be",
            )
        return addresses


@asynccontextmanager
async def pinned(send: Send, addresses: list[str] | None) -> AsyncGenerator[Send]:
    """``send`` for one host at ``addresses``; what an application brings that is no library's looks names up itself."""
    from .pinning import LibrarySession, PinnedLibrary  # the HTTP client and all it needs

    if addresses is None:
        yield send
    elif isinstance(send, Pinnable):
        async with send.pinned(addresses) as made:
            yield made
    elif isinstance(send, LibrarySession):
        async with PinnedLibrary(send.library, addresses).session() as made:
            yield made
    else:
        yield send


async def addresses_of(url: str) -> list[str]:
    """The addresses of a host."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            urlsplit(url).hostname or "", None, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def highest(addresses: Iterable[str]) -> int:
    """How private a host is: its most private address counts."""
    return max(map(level, addresses), default=PUBLIC)


def level(text: str) -> int:
    """How private one address is."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        # Addresses of the older kind are written in those of the newer in several ways; all lead to the same host.
        address = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1] or address
    if isinstance(address, ipaddress.IPv6Address) and address in _TRANSLATED:
        address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.is_loopback:
        return LOOPBACK
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return NEVER
    inside = address.is_private or address.is_reserved or any(address in network for network in _INSIDE)
    if inside:
        return PRIVATE
    return PUBLIC
