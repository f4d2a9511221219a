"""URLs as the specification wants them: which are trusted with secrets, and where metadata lies."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit

from .auth_errors import AuthError, Fault
from .resource import WELL_KNOWN, canonical, metadata_url

_PORTS = {"http": 80, "https": 443}


def split(url: str, what: str, fault: Fault) -> SplitResult:
    """Take ``url`` apart.

    Raises:
        AuthError: it is no http or https URL with a host.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise AuthError(f"{what} is no URL", fault=fault) from None
    if parts.scheme not in _PORTS:
        raise AuthError(f"{what} is no https URL but begins with {parts.scheme[:20]!r}", fault=fault)
    clean = url.isascii() and all("!" <= each <= "~" for each in url) and "\\" not in url
    if not parts.hostname or not clean or parts.username is not None:
        raise AuthError(f"{what} is no URL that can be used", fault=fault)
    return parts


def secure(url: str, what: str, fault: Fault) -> str:
    """``url`` itself, when secrets may be sent there: by https, or on this very machine.

    Raises:
        AuthError: they must not.
    """
    parts = split(url, what, fault)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise AuthError(f"{what} must be an https URL ({origin(url)})", fault=fault)
    if parts.fragment:
        raise AuthError(f"{what} must have no fragment", fault=fault)
    return url


def is_loopback(host: str) -> bool:
    """Whether the name of a host means this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def origin(url: str) -> str:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def covers(resource: str, url: str) -> bool:
    """Whether ``resource`` is the identifier of the server at ``url``, or of a path above it."""
    ours, theirs = urlsplit(canonical(url)), urlsplit(canonical(resource))
    if origin_of(ours) != origin_of(theirs):
        return False
    if theirs.query:
        return (ours.path, ours.query) == (theirs.path, theirs.query)
    above = theirs.path.rstrip("/")
    return ours.path.rstrip("/") == above or ours.path.startswith(above + "/")


def origin_of(parts: SplitResult) -> tuple[str, str, int]:
    """Scheme, host and port, the port also where it goes without saying."""
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme, 0)


def resource_metadata(url: str) -> list[str]:
    """Where a server's metadata may lie when it does not say so, the most specific place first."""
    path = urlsplit(url)._replace(query="").geturl().rstrip("/")
    return list(dict.fromkeys([metadata_url(path), origin(canonical(url)) + WELL_KNOWN]))


def server_metadata(issuer: str) -> list[str]:
    """Where the metadata of an authorization server may lie; the first that is there counts.

    Authorization 2025-11-25, Authorization Server Metadata Discovery.
    """
    base, path = origin(issuer), urlsplit(issuer).path.rstrip("/")
    known = f"{base}/.well-known"
    if not path:
        return [f"{known}/oauth-authorization-server", f"{known}/openid-configuration"]
    return [
        f"{known}/oauth-authorization-server{path}",
        f"{known}/openid-configuration{path}",
        f"{base}{path}/.well-known/openid-configuration",
    ]
