"""Address classes: how private an IP address is. Used against SSRF."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

PUBLIC, PRIVATE, LOOPBACK, NEVER = range(4)

_INSIDE = [
    ipaddress.ip_network(network)
    for network in ("100.64.0.0/10", "192.0.0.0/24", "168.63.129.16/32", "fec0::/10")
]
"""Private addresses that no list of the standard library contains: carrier, protocol, cloud metadata,
site-local."""
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


def more_private(there: int, here: int) -> bool:
    """Whether a party at privacy level ``here`` must not name an address of level ``there``.

    Link-local addresses (cloud metadata), multicast and unspecified addresses are never allowed.
    """
    return there == NEVER or there > here


def privacy_level(addresses: Iterable[str]) -> int:
    """Return the privacy level of a host: that of its most private address."""
    return max(map(level, addresses), default=PUBLIC)


def level(text: str) -> int:
    """Return the privacy level of one address."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        # IPv6 has several notations for IPv4 addresses; all lead to the same host.
        address = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1] or address
    if isinstance(address, ipaddress.IPv6Address) and address in _TRANSLATED:
        address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.is_loopback:
        return LOOPBACK
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return NEVER
    inside = address.is_private or address.is_reserved or any(address in network for network in _INSIDE)
    return PRIVATE if inside else PUBLIC
