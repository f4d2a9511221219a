"""Metadata of clients of the OAuth proxy, and their redirect URIs.

Clients registered by RFC 7591 and clients with a Client ID Metadata Document follow the same rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from . import oauth_urls
from .auth_errors import AuthError
from .oauth_error import Denial, Unrecognised
from .registration import NONE, SECRET_BASIC, SECRET_POST

CLIENT_BYTES: Final = 1500
"""Size limit in bytes of client metadata, which is part of the client_id."""
REDIRECT_URIS: Final = 16
"""Redirect URIs of one client."""


METHODS = (NONE, SECRET_POST, SECRET_BASIC)
SCHEMES = ("cursor", "vscode", "vscode-insiders", "windsurf", "zed")
"""Accepted schemes of popular applications without the dot that RFC 8252 requires."""


class ClientMetadata(Struct, frozen=True, omit_defaults=True):
    """The used members of client metadata."""

    redirect_uris: tuple[str, ...]
    client_name: str | None = None
    token_endpoint_auth_method: str | None = None
    grant_types: tuple[str, ...] = ("authorization_code",)
    response_types: tuple[str, ...] = ("code",)
    client_id: str | None = None
    client_secret: str | None = None


class ProxyClient(Struct, frozen=True):
    """A client of the proxy."""

    client_id: str
    redirect_uris: tuple[str, ...]
    name: str | None = None
    method: str = NONE
    described_at: str | None = None
    """The host of its metadata document: its only verified identity."""


def read_registration(body: bytes, schemes: Collection[str]) -> ClientMetadata:
    """Parse the metadata of a registration request.

    Raises:
        Denial: it is not valid, or such clients are not accepted.
    """
    try:
        found = msgspec.json.decode(body, type=ClientMetadata)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Denial(
            "invalid_client_metadata", "the body must be client metadata with redirect_uris"
        ) from None
    check(found, schemes)
    if len(msgspec.json.encode(found)) > CLIENT_BYTES:
        raise Denial("invalid_client_metadata", f"the client metadata exceeds {CLIENT_BYTES} bytes")
    return found


def read_document(document: Mapping[str, Any], url: str, schemes: Collection[str]) -> ProxyClient:
    """Return the client that the document at ``url`` describes.

    Raises:
        Unrecognised: it is not valid, or describes another client.
    """
    try:
        found = msgspec.convert(document, ClientMetadata, strict=True)
        check(found, schemes)
    except (msgspec.ValidationError, Denial) as error:
        said = error.description if isinstance(error, Denial) else "it has no redirect_uris"
        raise Unrecognised("invalid_client", f"the client metadata document cannot be used: {said}") from None
    if found.client_id != url:
        raise Unrecognised("invalid_client", "the client_id in the client metadata document must be its URL")
    if found.token_endpoint_auth_method not in (None, NONE) or found.client_secret is not None:
        raise Unrecognised(
            "invalid_client", "a client with a metadata document must be public, without a secret"
        )
    return ProxyClient(url, found.redirect_uris, found.client_name, described_at=urlsplit(url).hostname)


def check(found: ClientMetadata, schemes: Collection[str]) -> None:
    """Check that the proxy accepts such clients. Raises: Denial."""
    if not 0 < len(found.redirect_uris) <= REDIRECT_URIS:
        raise Denial("invalid_redirect_uri", f"a client needs 1 to {REDIRECT_URIS} redirect_uris")
    for uri in found.redirect_uris:
        check_redirect(uri, schemes)
    if found.token_endpoint_auth_method not in (None, *METHODS):
        raise Denial(
            "invalid_client_metadata", f"token_endpoint_auth_method must be one of {', '.join(METHODS)}"
        )
    if "authorization_code" not in found.grant_types or "code" not in found.response_types:
        raise Denial(
            "invalid_client_metadata",
            "clients must use grant_types authorization_code and response_types code",
        )


def check_redirect(uri: str, schemes: Collection[str]) -> None:
    """Check a redirect URI: https, a loopback address, or an application scheme.

    Raises:
        Denial: it is not allowed.
    """
    scheme = uri.partition(":")[0]
    try:
        if scheme in ("http", "https"):
            oauth_urls.secure(uri, "a redirect URI", "client")
            return
        parts = urlsplit(uri)
    except (AuthError, ValueError):
        raise Denial(
            "invalid_redirect_uri", "redirect URIs must use https, or http on a loopback address"
        ) from None
    clean = uri.isascii() and all("!" <= each <= "~" for each in uri) and "\\" not in uri
    # RFC 8252, 7.1: private-use schemes are reverse domain names. Other schemes (javascript, data, file) are
    # dangerous.
    if not clean or parts.fragment or not (parts.scheme == scheme and ("." in scheme or scheme in schemes)):
        raise Denial(
            "invalid_redirect_uri",
            "redirect URIs must use https, a loopback address, or an application scheme",
        )


def choose_redirect(client: ProxyClient, given: str | None) -> str:
    """Return the redirect URI: exactly one of the client's.

    RFC 8252, 7.3: a registered loopback address without a port matches any port.

    Raises:
        Unrecognised: the requested one is not registered.
    """
    if given is None and len(client.redirect_uris) == 1:
        return client.redirect_uris[0]
    if given is not None and any(given == known or _any_port(known, given) for known in client.redirect_uris):
        return given
    raise Unrecognised("invalid_request", "the redirect_uri is not registered for this client")


def _any_port(known: str, given: str) -> bool:
    try:
        ours, theirs = urlsplit(known), urlsplit(given)
        port = theirs.port
    except ValueError:
        return False
    if (
        ours.scheme != "http"
        or ours.port is not None
        or port is None
        or not oauth_urls.is_loopback(ours.hostname or "")
    ):
        return False
    return ours._replace(netloc=f"{ours.netloc}:{port}").geturl() == given
