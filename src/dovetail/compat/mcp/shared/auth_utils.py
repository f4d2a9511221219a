"""What a token is for: comparing addresses of resources (RFC 8707)."""

import time
from urllib.parse import urlparse, urlsplit, urlunsplit

from pydantic import AnyUrl, HttpUrl


def resource_url_from_server_url(url: str | HttpUrl | AnyUrl) -> str:
    """The address of a server as a resource: without a fragment, host and scheme in lower case."""
    parts = urlsplit(str(url))
    return urlunsplit(parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower(), fragment=""))


def check_resource_allowed(requested_resource: str, configured_resource: str) -> bool:
    """Whether a token for ``configured_resource`` is good for ``requested_resource``, which may lie below it."""
    requested, configured = urlparse(requested_resource), urlparse(configured_resource)
    if requested.scheme.lower() != configured.scheme.lower():
        return False
    if requested.netloc.lower() != configured.netloc.lower():
        return False
    below, above = requested.path.rstrip("/") + "/", configured.path.rstrip("/") + "/"
    return below.startswith(above)


def calculate_token_expiry(expires_in: int | str | None) -> float | None:
    """When a token ends that is good for so many seconds."""
    return None if expires_in is None else time.time() + int(expires_in)
