"""URL parsing: the origin to connect to, and the request target."""

from __future__ import annotations

import base64
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit

from ....errors import TransportError

_PORTS = {"http": 80, "https": 443}
_PATH = "/%:@!$&'()*+,;=~-._"
_QUERY = _PATH + "?[]"

Origin = tuple[bool, str, int]
"""Whether TLS is used, host, port: what a connection is opened to."""


class UrlParts(NamedTuple):
    """The destination of a request."""

    origin: Origin
    path: str
    """Path and query, as in the request line."""
    name: str
    """Host and port, as in the ``Host`` header."""
    authorization: str | None
    """Authorization header for the user and password of the URL."""

    @property
    def url(self) -> str:
        """The URL without a user and a password."""
        return f"http{'s' if self.origin[0] else ''}://{self.name}{self.path}"


def address_of(url: str) -> UrlParts:
    """Parse ``url``.

    Raises:
        TransportError: it is not an http or https URL.
    """
    try:
        return _address(urlsplit(url))
    except ValueError:
        # The reason quotes the URL, and with it a password that contains a slash, so it is left out.
        raise TransportError(f"{displayed(url)} is not a valid URL to connect to", cause="protocol") from None


def same_origin(one: str, other: str) -> bool:
    """Whether both lead to the same scheme, host and port."""
    try:
        return address_of(one).origin == address_of(other).origin
    except TransportError:
        return False


def displayed(url: str) -> str:
    """Return ``scheme://host:port`` of a URL, the only parts that messages may contain."""
    try:
        parts = urlsplit(url)
        if parts.port is None and parts.hostname is None:
            return "the address"
    except ValueError:
        return "the address"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _address(parts: SplitResult) -> UrlParts:
    port = _PORTS.get(parts.scheme, -1)
    host = parts.hostname or ""
    if not host.isascii():
        host = host.encode("idna").decode()
    if port < 0 or not host or any(not "!" <= each <= "~" for each in host):
        raise ValueError(parts)
    # The zone of an address is valid on this machine only (RFC 6874).
    name = f"[{host.partition('%')[0]}]" if ":" in host else host
    if parts.port is not None and parts.port != port:
        port = parts.port
        name = f"{name}:{port}"
    path = quote(parts.path, safe=_PATH) or "/"
    return UrlParts(
        origin=(parts.scheme == "https", host, port),
        path=f"{path}?{quote(parts.query, safe=_QUERY)}" if parts.query else path,
        name=name,
        authorization=_basic(parts.username, parts.password),
    )


def _basic(user: str | None, password: str | None) -> str | None:
    if user is None:
        return None
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()
