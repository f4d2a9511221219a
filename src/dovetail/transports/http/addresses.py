"""A URL taken apart into what a request needs: whom to connect to, and what to say there."""

from __future__ import annotations

import base64
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from ...errors import TransportError

_PORTS = {"http": 80, "https": 443}
_PATH = "/%:@!$&'()*+,;=~-._"
_QUERY = _PATH + "?[]"


class Address(NamedTuple):
    """Where a request goes."""

    secure: bool
    host: str
    port: int
    path: str
    """Path and query, as the request line has them."""
    name: str
    """Host and port, as the ``Host`` header has them."""
    authorization: str | None
    """What a URL with a user and a password stands for."""

    @property
    def origin(self) -> tuple[bool, str, int]:
        return (self.secure, self.host, self.port)


def address_of(url: str) -> Address:
    """Take ``url`` apart.

    Raises:
        TransportError: it is no http or https URL.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
        if not host.isascii():
            host = host.encode("idna").decode()
    except ValueError as error:
        raise _no_url(url) from error
    if parts.scheme not in _PORTS or not host or any(not "!" <= each <= "~" for each in host):
        raise _no_url(url)
    shown = f"[{host}]" if ":" in host else host
    path = quote(parts.path, safe=_PATH) or "/"
    return Address(
        secure=parts.scheme == "https",
        host=host,
        port=_PORTS[parts.scheme] if port is None else port,
        path=f"{path}?{quote(parts.query, safe=_QUERY)}" if parts.query else path,
        name=shown if port is None or port == _PORTS[parts.scheme] else f"{shown}:{port}",
        authorization=_basic(parts.username, parts.password),
    )


def shown(url: str) -> str:
    """``scheme://host:port`` of a URL, which is all of it that may appear in a message."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the server"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _basic(user: str | None, password: str | None) -> str | None:
    if user is None:
        return None
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def _no_url(url: str) -> TransportError:
    return TransportError(f"{shown(url)} is no URL that can be connected to", cause="protocol")
