"""Proxy selection: from the client option or the environment variables.

``http_proxy`` applies to http and ws, ``https_proxy`` to https and wss, ``all_proxy`` to both. Upper-case
names work too; lower case takes precedence. An empty value means no proxy. In a CGI program ``HTTP_PROXY`` is
a request header that any client can set, so it is ignored if ``REQUEST_METHOD`` is set.

``no_proxy`` lists hosts for direct connections, separated by commas or spaces: ``*`` for all, a domain
including subdomains, an address, a network such as ``10.0.0.0/8``; ``name:port`` for one port. Names are not
resolved for it. Loopback hosts (``localhost`` and loopback addresses) are never reached through a proxy of
the environment: it would connect to its own loopback.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from ....errors import TransportError
from ..server.guards import is_loopback
from .url_parts import Origin, address_of, displayed

_SEPARATORS = re.compile(r"[\s,]+").split


class HttpProxy(NamedTuple):
    """An HTTP proxy. ``name`` is its name in messages, without user and password."""

    origin: Origin
    name: str
    authorization: str | None


def proxy_for(
    origin: Origin, setting: str | bool = True, environment: Mapping[str, str] | None = None
) -> HttpProxy | None:
    """Return the proxy for ``origin``, or None.

    ``setting`` is a proxy URL, False for no proxy, True for the environment.

    Raises:
        TransportError: the kind of proxy is not supported.
    """
    if isinstance(setting, str):
        return _read_proxy("proxy", setting)
    if not setting:
        return None
    secure, host, port = origin
    found = os.environ if environment is None else environment
    named = _variable(found, "https_proxy" if secure else "http_proxy") or _variable(found, "all_proxy")
    if named is None or not named[1].strip() or host.endswith(".localhost") or is_loopback(host):
        return None
    exempt = _variable(found, "no_proxy")
    if exempt is not None and any(_covers(rule, host, port) for rule in _SEPARATORS(exempt[1].lower())):
        return None
    return _read_proxy(*named)


def check_proxy(setting: str | bool) -> None:
    """Check that ``setting`` is usable, before connecting.

    Raises:
        ValueError: it is not.
    """
    if isinstance(setting, str):
        try:
            _read_proxy("proxy", setting)
        except TransportError as error:
            raise ValueError(error.message) from None


def _variable(environment: Mapping[str, str], name: str) -> tuple[str, str] | None:
    # Compare the names exactly: on systems without case, the lower-case name must not match the CGI header.
    written = frozenset(environment)
    if name in written:
        return name, environment[name]
    capital = name.upper()
    if capital not in written or (name == "http_proxy" and "REQUEST_METHOD" in written):
        return None
    return capital, environment[capital]


def _read_proxy(source: str, text: str) -> HttpProxy:
    """Parse a proxy URL; the default scheme is http. ``source`` names the origin of the URL."""
    url = text.strip() if "://" in text else f"http://{text.strip()}"
    if url.lower().startswith("socks"):
        raise TransportError(
            f"{source} names a SOCKS proxy ({displayed(url)}), which is not supported: use an http or https proxy, or"
            " pass an HTTP client that supports it (Client(http=…))",
            cause="proxy",
        )
    try:
        address = address_of(url)
    except TransportError:
        # The URL is not quoted: it may contain a password.
        raise TransportError(f"{source} is not a valid http or https proxy URL", cause="proxy") from None
    return HttpProxy(address.origin, f"the proxy {displayed(url)}", address.authorization)


def _covers(rule: str, host: str, port: int) -> bool:
    """Whether one entry of ``no_proxy`` matches ``host`` at ``port``."""
    if rule == "*":
        return True
    name, only = rule, ""
    if rule.startswith("["):
        name, _, only = rule[1:].partition("]")
    elif rule.count(":") == 1:
        name, _, only = rule.partition(":")
    if not name or (only and only.removeprefix(":") != str(port)):
        return False
    address = _address(host)
    try:
        network = ipaddress.ip_network(name, strict=False)
    except ValueError:
        return address is None and _is_below(host, name)
    return address is not None and address in network


def _is_below(host: str, domain: str) -> bool:
    domain = domain.removeprefix("*").strip(".")
    try:
        domain = domain if domain.isascii() else domain.encode("idna").decode()
    except UnicodeError:
        return False
    return bool(domain) and f".{host.rstrip('.')}".endswith(f".{domain}")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
