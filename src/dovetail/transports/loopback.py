"""Loopback detection, for defaults that depend on whether other machines can connect."""

from __future__ import annotations

import functools


@functools.lru_cache(maxsize=256)
def is_loopback(host: str | None) -> bool:
    """Whether ``host``, an address or a name, is this machine only. None means every address."""
    if host is None or host == "localhost":
        return host is not None
    if host == "127.0.0.1":  # the default
        return True
    import ipaddress  # imported on demand

    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
