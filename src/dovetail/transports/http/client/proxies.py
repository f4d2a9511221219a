"""Which proxy leads to a server: what the application says, or the variables of the environment.

``http_proxy`` is for http and ws, ``https_proxy`` for https and wss, ``all_proxy`` for both; each may be written in
capitals, and the small ones win. One that is set and empty says that there is no proxy. In a CGI program
``HTTP_PROXY`` is a header that anybody may send, so it is not looked at where ``REQUEST_METHOD`` is set.

``no_proxy`` lists what is reached directly, separated by commas or spaces: ``*`` for everything, a domain with all
below it, an address, a network such as ``10.0.0.0/8``; ``name:port`` for one port. Names are never resolved for it.
This machine (``localhost`` and the loopback addresses) is never reached through a proxy of the environment: there,
the proxy's own loopback would answer.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from ....errors import TransportError
from ..server.guards import is_loopback
from .url_parts import Origin, address_of, shown

_SEPARATORS = re.compile(r"[\s,]+").split


class Proxy(NamedTuple):
    """A proxy for HTTP. ``name`` is what messages call it: without the user and the password it is reached with."""

    origin: Origin
    name: str
    authorization: str | None


def proxy_for(
    origin: Origin, setting: str | bool = True, environment: Mapping[str, str] | None = None
) -> Proxy | None:
    """The proxy to ``origin``, or None. ``setting`` is a proxy's URL, False for none, True for the environment's.

    Raises:
        TransportError: it is one that we do not speak with.
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
    """See whether ``setting`` can be used, before anything is connected.

    Raises:
        ValueError: it cannot.
    """
    if isinstance(setting, str):
        try:
            _read_proxy("proxy", setting)
        except TransportError as error:
            raise ValueError(error.message) from None


def _variable(environment: Mapping[str, str], name: str) -> tuple[str, str] | None:
    # As they are written: where the environment knows no small letters, the small name must not stand for the header.
    written = frozenset(environment)
    if name in written:
        return name, environment[name]
    capital = name.upper()
    if capital not in written or (name == "http_proxy" and "REQUEST_METHOD" in written):
        return None
    return capital, environment[capital]


def _read_proxy(source: str, text: str) -> Proxy:
    """A proxy from its URL; one without a scheme is http. ``source`` says where the URL comes from."""
    url = text.strip() if "://" in text else f"http://{text.strip()}"
    if url.lower().startswith("socks"):
        raise TransportError(
            f"{source} names a SOCKS proxy ({shown(url)}), which is not supported: name an http or https proxy, or"
            " give a client that can (Client(http=…))",
            cause="proxy",
        )
    try:
        address = address_of(url)
    except TransportError:
        # Not quoted: there may be a password in it.
        raise TransportError(f"{source} is not the http or https URL of a proxy", cause="proxy") from None
    return Proxy(address.origin, f"the proxy {shown(url)}", address.authorization)


def _covers(rule: str, host: str, port: int) -> bool:
    """Whether one entry of ``no_proxy`` covers ``host`` at ``port``."""
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
