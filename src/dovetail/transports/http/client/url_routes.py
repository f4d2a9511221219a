"""How a URL is reached, and how a request to it is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ....errors import TransportError
from ....wire.headers import HEADS_KEPT
from .proxies import Proxy, proxy_for
from .url_parts import Address, address_of, shown

HEAD_KEPT_BYTES: Final = 8 << 10
"""How long a head is kept to be sent again."""

ENCODINGS = "gzip, deflate"
"""What `inflating` unpacks."""
SAFE = frozenset({"GET", "DELETE", "HEAD", "OPTIONS"})
"""Methods that do no harm twice."""
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch


class Route(NamedTuple):
    """The way to one URL, and what every request to it begins with."""

    address: Address
    where: str
    """What messages call the server."""
    proxy: Proxy | None
    relayed: bool
    """The proxy reads our requests and sends its own; otherwise it opens a tunnel, if there is one at all."""
    target: str
    """What the request line names: the path, or the whole URL for a proxy that relays."""
    lines: Mapping[str, str]
    """Header lines by their name in lower case; those of a request take their place."""
    heads: dict[Any, bytes]
    """Heads that were sent not long ago, as far as the length of the body: most requests repeat one."""


def route_to(url: str, proxy: str | bool = True) -> Route:
    """The way to ``url``; see `proxies.proxy_for` for ``proxy``.

    Raises:
        TransportError: it is no http or https URL, or the proxy is one that we do not speak with.
    """
    address = address_of(url)
    found = proxy_for(address.origin, proxy)
    relayed = found is not None and not address.origin[0]
    lines = {
        "host": f"Host: {address.name}",
        "user-agent": "User-Agent: dovetail",
        "accept-encoding": f"Accept-Encoding: {ENCODINGS}",
    }
    if address.authorization is not None:
        lines["authorization"] = f"Authorization: {address.authorization}"
    if relayed and found is not None and found.authorization is not None:
        lines["proxy-authorization"] = f"Proxy-Authorization: {found.authorization}"
    return Route(
        address=address,
        where=shown(url) if found is None else f"{shown(url)} (through {found.name})",
        proxy=found,
        relayed=relayed,
        target=address.url if relayed else address.path,
        lines=lines,
        heads={},
    )


def request(method: str, route: Route, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """A request as it goes over the wire.

    Raises:
        TransportError: the method or a header cannot be sent as it is.
    """
    key = (method, *headers.items())
    head = route.heads.get(key)
    if head is None:
        head = _head(method, route, headers)
        if len(head) <= HEAD_KEPT_BYTES:  # names in it may be those that a client tells a gateway
            if len(route.heads) >= HEADS_KEPT:
                route.heads.clear()
            route.heads[key] = head
    if body is not None:
        return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
    return head + (b"Content-Length: 0\r\n\r\n" if method in _WITH_BODY else b"\r\n")


def _head(method: str, route: Route, headers: Mapping[str, str]) -> bytes:
    """A head without its end, and without what says how long the body is, which is not the caller's business."""
    lines = {**route.lines}
    for name, value in headers.items():
        lines[_key(name)] = f"{name}: {value}"
    lines.pop("content-length", None)
    text = "\r\n".join(lines.values())
    # One look at all of them: whatever a value holds, it must not end its line.
    if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1 or "\0" in text:
        raise TransportError("a header must not contain a line break or a null character", cause="protocol")
    if method not in SAFE and method not in _WITH_BODY and _TOKEN(method) is None:
        raise TransportError(f"{method[:100]!r} is no method", cause="protocol")
    try:
        return f"{method} {route.target} HTTP/1.1\r\n{text}\r\n".encode()
    except UnicodeEncodeError:
        raise TransportError("a header contains half a character", cause="protocol") from None


@lru_cache(maxsize=1024)
def _key(name: str) -> str:
    """A header's name as it is compared.

    Raises:
        TransportError: it is no name, or says where the body ends, which is not the caller's business.
    """
    if _TOKEN(name) is None:
        raise TransportError(f"{name[:100]!r} is no name of a header", cause="protocol")
    key = name.lower()
    if key == "transfer-encoding":
        raise TransportError("a body is sent as it is, without a Transfer-Encoding", cause="protocol")
    return key
