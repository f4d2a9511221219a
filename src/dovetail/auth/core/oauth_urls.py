"""URL rules of OAuth: which URLs may receive secrets, and where metadata is found."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit

from .auth_errors import AuthError, Fault
from .resource import WELL_KNOWN, canonical, metadata_url

_PORTS = {"http": 80, "https": 443}


def split(url: str, what: str, fault: Fault) -> SplitResult:
    """Split and check ``url``.

    Raises:
        AuthError: it is not an http or https URL with a host.
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
    """Return ``url`` if it may receive secrets: https, or a loopback address.

    Raises:
        AuthError: it must not.
    """
    parts = split(url, what, fault)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise AuthError(f"{what} must be an https URL ({origin(url)})", fault=fault)
    if parts.fragment:
        raise AuthError(f"{what} must have no fragment", fault=fault)
    return url


def is_loopback(host: str) -> bool:
    """Return whether the host is a loopback address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def origin(url: str) -> str:
    """Return scheme, host and port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def covers(resource: str, url: str) -> bool:
    """Return whether ``resource`` identifies the server at ``url``, or a parent path of it."""
    ours, theirs = urlsplit(canonical(url)), urlsplit(canonical(resource))
    if origin_of(ours) != origin_of(theirs):
        return False
    if theirs.query:
        return (ours.path, ours.query) == (theirs.path, theirs.query)
    above = theirs.path.rstrip("/")
    return ours.path.rstrip("/") == above or ours.path.startswith(above + "/")


def origin_of(parts: SplitResult) -> tuple[str, str, int]:
    """Return scheme, host and port, including default ports."""
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme, 0)


def resource_metadata(url: str) -> list[str]:
    """Return the well-known metadata URLs of a server, most specific first."""
    path = urlsplit(url)._replace(query="").geturl().rstrip("/")
    return list(dict.fromkeys([metadata_url(path), origin(canonical(url)) + WELL_KNOWN]))


def server_metadata(issuer: str) -> list[str]:
    """Return the metadata URLs of an authorization server; the first that exists is used.

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
