"""Where MCP clients may have users sent back to: ``allowed_client_redirect_uris=["http://localhost:*"]``."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_PORTS: Final = {"http": "80", "https": "443"}


def is_allowed(uri: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns fits: ``*`` for a port, ``*.`` before a host, ``*`` within a path."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    # An address may look like the one it is not: user:password@, and paths that lead upwards.
    upward = any(unquote(step) in (".", "..") for step in parts.path.split("/"))
    if parts.username is not None or parts.password is not None or upward or "\\" in uri:
        return False
    return any(_fits(parts, urlsplit(pattern)) for pattern in patterns)


def _fits(parts: SplitResult, pattern: SplitResult) -> bool:
    host, port = _place(parts)
    wanted, wanted_port = _place(pattern)
    if parts.scheme != pattern.scheme:
        return False
    if wanted.startswith("*."):
        if not host.endswith(wanted[1:]) or host == wanted[1:]:
            return False
    elif host != wanted:
        return False
    # RFC 8252, 7.3: the port of a loopback address is whatever was free.
    any_port = wanted_port == "*" or (not wanted_port and wanted in _LOOPBACK)
    default = _PORTS.get(parts.scheme, "")
    if not any_port and (port or default) != (wanted_port or default):
        return False
    return pattern.path in ("", "/") or fnmatchcase(parts.path, pattern.path)


def _place(parts: SplitResult) -> tuple[str, str]:
    """Host and port, as they are written: a pattern's port may be no number."""
    where = parts.netloc.rpartition("@")[2]
    if where.startswith("["):
        host, _, rest = where[1:].partition("]")
        return host.lower(), rest.removeprefix(":")
    host, _, port = where.partition(":")
    return host.lower(), port
