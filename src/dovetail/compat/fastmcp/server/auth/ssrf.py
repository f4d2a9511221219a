"""Which addresses that others name may be asked: `dovetail.auth` decides."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from .....auth.client.guarding import addresses_of
from .....auth.core.privacy import PUBLIC, level


class SSRFError(Exception):
    """Nothing is to be sent there."""


class SSRFFetchError(Exception):
    """It may be asked, and did not answer as it should."""


@dataclass
class ValidatedURL:
    """An address that may be asked, and where it leads."""

    original_url: str
    hostname: str
    port: int
    path: str
    resolved_ips: list[str]
    proxy_url: str | None = None


def format_ip_for_url(ip_str: str) -> str:
    """An address as URLs have it: of the newer kind in brackets."""
    return f"[{ip_str}]" if ":" in ip_str else ip_str


def is_ip_allowed(ip_str: str) -> bool:
    """Whether this is an address of the internet, and no private one."""
    try:
        ipaddress.ip_address(ip_str.partition("%")[0])
    except ValueError:
        return False
    return level(ip_str) == PUBLIC


async def resolve_hostname(hostname: str, port: int = 443) -> list[str]:
    """The addresses of a host. Raises `SSRFError`: it has none."""
    found = await addresses_of(f"https://{format_ip_for_url(hostname)}:{port}")
    if not found:
        raise SSRFError(f"DNS resolution failed for {hostname}")
    return found
