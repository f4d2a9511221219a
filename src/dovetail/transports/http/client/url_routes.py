"""Routes to URLs, and the encoding of requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ....errors import TransportError
from ....wire.headers import HEADS_KEPT
from .proxies import HttpProxy, proxy_for
from .url_parts import UrlParts, address_of, displayed

HEAD_KEPT_BYTES: Final = 8 << 10
"""Longest header block that is cached for reuse."""

ENCODINGS = "gzip, deflate"
"""The encodings that `decompression` supports."""
SAFE = frozenset({"GET", "DELETE", "HEAD", "OPTIONS"})
"""Safe methods, which may be repeated."""
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch


class UrlRoute(NamedTuple):
    """The route to one URL, and the beginning of every request to it."""

    address: UrlParts
    where: str
    """Name of the server in messages."""
    proxy: HttpProxy | None
    forwarded: bool
    """The proxy forwards requests; otherwise it opens a tunnel, if there is a proxy."""
    target: str
    """The request target: the path, or the whole URL for a forwarding proxy."""
    lines: Mapping[str, str]
    """Header lines by lower-case name; those of a request replace them."""
    heads: dict[Any, bytes]
    """Heads that were sent not long ago, as far as the length of the body: most requests repeat one."""


def route_to(url: str, proxy: str | bool = True) -> UrlRoute:
    """Return the route to ``url``; for ``proxy`` see `proxies.proxy_for`.

    Raises:
        TransportError: it is not an http or https URL, or the proxy is not supported.
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
    return UrlRoute(
        address=address,
        where=displayed(url) if found is None else f"{displayed(url)} (through {found.name})",
        proxy=found,
        forwarded=relayed,
        target=address.url if relayed else address.path,
        lines=lines,
        heads={},
    )


def request(method: str, route: UrlRoute, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """Encode a request.

    Raises:
        TransportError: the method or a header is invalid.
    """
    key = (method, *headers.items())
    head = route.heads.get(key)
    if head is None:
        head = _head(method, route, headers)
        if len(head) <= HEAD_KEPT_BYTES:  # gateways forward names chosen by clients, which may be long
            if len(route.heads) >= HEADS_KEPT:
                route.heads.clear()
            route.heads[key] = head
    if body is not None:
        return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
    return head + (b"Content-Length: 0\r\n\r\n" if method in _WITH_BODY else b"\r\n")


def _head(method: str, route: UrlRoute, headers: Mapping[str, str]) -> bytes:
    """Encode a header block without its end and its length fields, which the caller must not set."""
    lines = {**route.lines}
    for name, value in headers.items():
        lines[_key(name)] = f"{name}: {value}"
    lines.pop("content-length", None)
    text = "\r\n".join(lines.values())
    # Check all lines at once: no value may contain a line break.
    if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1 or "\0" in text:
        raise TransportError("a header must not contain a line break or a null character", cause="protocol")
    if method not in SAFE and method not in _WITH_BODY and _TOKEN(method) is None:
        raise TransportError(f"{method[:100]!r} is not a valid HTTP method", cause="protocol")
    try:
        return f"{method} {route.target} HTTP/1.1\r\n{text}\r\n".encode()
    except UnicodeEncodeError:
        raise TransportError("a header contains an unpaired surrogate character", cause="protocol") from None


@lru_cache(maxsize=1024)
def _key(name: str) -> str:
    """Return the lower-case name of a header.

    Raises:
        TransportError: it is invalid, or sets the length of the body.
    """
    if _TOKEN(name) is None:
        raise TransportError(f"{name[:100]!r} is not a valid header name", cause="protocol")
    key = name.lower()
    if key == "transfer-encoding":
        raise TransportError("Transfer-Encoding must not be set: bodies are sent unencoded", cause="protocol")
    return key
