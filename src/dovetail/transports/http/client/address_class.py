"""How private an address is: what others name must not lead us further into our own network than they are."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

PUBLIC, PRIVATE, LOOPBACK, NEVER = range(4)

_INSIDE = [
    ipaddress.ip_network(network)
    for network in ("100.64.0.0/10", "192.0.0.0/24", "168.63.129.16/32", "fec0::/10")
]
"""What no list calls private, and yet is: of carriers, of protocols, of a cloud's own host, of sites in the old way."""
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


def leads_inside(there: int, here: int) -> bool:
    """Whether somebody of level ``here`` must not send us to an address of level ``there``.

    Addresses of links (the metadata of clouds lies there), groups and nobody are never let through.
    """
    return there == NEVER or there > here


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
    return PRIVATE if inside else PUBLIC
