"""Headers of trusted reverse proxies: `X-Forwarded-For` and `X-Forwarded-Proto`.

Both are believed only on connections from a trusted address. In `X-Forwarded-For` the client is the last address that
is not a trusted proxy: everything before it can be invented by the client.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

from ....errors import DovetailError

Fields = Iterable[tuple[bytes, bytes]]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class TrustedProxies:
    """The networks whose forwarded headers are believed.

    Raises:
        DovetailError: an entry is not an address or a network.
    """

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [_network(text) for text in networks]

    def apply(self, scope: dict[str, Any]) -> None:
        """Set ``client`` and ``scheme`` of an ASGI scope from the headers, if a trusted proxy sent them."""
        client = scope["client"]
        if client is not None and not self._trusts(client[0]):
            return  # a Unix socket has no client address; only processes of this machine reach it
        addresses: list[str] = []
        for name, value in scope["headers"]:
            if name == b"x-forwarded-for":
                addresses += [part.strip() for part in value.decode("latin-1").split(",")]
            elif name == b"x-forwarded-proto" and value.strip().lower() in (b"http", b"https"):
                scope["scheme"] = value.strip().lower().decode()
        for address in reversed(addresses):
            found = _address(address)
            if found is None:
                return
            scope["client"] = (found, 0)
            if not self._trusts(found):
                return

    def _trusts(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(parsed, "ipv4_mapped", None)
        return any((mapped or parsed) in network for network in self._networks)


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise DovetailError(
            f"{text!r} is not an address or a network: use CIDR notation, such as 10.0.0.0/8 (--trusted-proxy)"
        ) from None


def _address(text: str) -> str | None:
    """An address of `X-Forwarded-For` without its port; None if it is not an address."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None
