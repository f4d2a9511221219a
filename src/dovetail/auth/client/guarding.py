"""Where a flow may send requests: a server that names its authorization server must not lead us into our network."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from urllib.parse import urlsplit

from ..core import urls
from ..core.problems import AuthError, Fault

PUBLIC, PRIVATE, LOOPBACK, NEVER = range(4)

_SHARED = ipaddress.ip_network("100.64.0.0/10")


class AddressGuard:
    """Lets requests of a flow through to addresses that are no more private than the server's own.

    A server on this machine may name an authorization server on this machine; one on the internet may not. Addresses
    of links (the metadata of clouds lies there), groups and nobody are never let through.
    """

    def __init__(self, server: str, *, allow_private: bool) -> None:
        self._server = server
        self._allow = allow_private
        self._level: int | None = None

    async def check(self, url: str, what: str, fault: Fault) -> None:
        """Raises `AuthError`: nothing is to be sent there."""
        urls.secure(url, what, fault)
        if self._allow:
            return
        level = await level_of(url)
        if level == PUBLIC:
            return
        if self._level is None:
            self._level = await level_of(self._server)
        if level == NEVER or level > self._level:
            raise AuthError(
                f"{what} lies in a private network ({urls.origin(url)}), and the server does not",
                fault=fault,
                advice="give allow_private=True if that is meant to be",
            )


async def level_of(url: str) -> int:
    """How private the addresses of a host are; the most private one counts. One without any fails by itself."""
    host = urlsplit(url).hostname or ""
    if urls.is_loopback(host):
        return LOOPBACK
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return PUBLIC
    return max((level(str(entry[4][0])) for entry in found), default=PUBLIC)


def level(text: str) -> int:
    """How private one address is."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback:
        return LOOPBACK
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return NEVER
    if address.is_private or address.is_reserved or (address.version == 4 and address in _SHARED):
        return PRIVATE
    return PUBLIC
