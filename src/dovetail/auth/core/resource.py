"""Protected resource metadata (RFC 9728): the resource id, its metadata URL and its authorization servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import UNSET, Struct, UnsetType

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


class ProtectedResource(Struct, omit_defaults=True):
    """The metadata document. Unused members are left out."""

    resource: str
    authorization_servers: list[str] | UnsetType = UNSET
    scopes_supported: list[str] | UnsetType = UNSET
    bearer_methods_supported: list[str] | UnsetType = UNSET
    resource_name: str | UnsetType = UNSET
    resource_documentation: str | UnsetType = UNSET
    jwks_uri: str | UnsetType = UNSET
    dpop_signing_alg_values_supported: list[str] | UnsetType = UNSET
    dpop_bound_access_tokens_required: bool | UnsetType = UNSET


def describe(
    resource: str,
    servers: Sequence[str],
    scopes: Sequence[str],
    name: str,
    proofs: Sequence[str] = (),
    described: Mapping[str, Any] | None = None,
) -> bytes:
    """Encode the metadata of a server. Members of ``described`` replace the computed ones."""
    # MCP 2026-07-28, Protected Resource Metadata: tokens are sent in the header only.
    found = ProtectedResource(
        resource,
        authorization_servers=list(servers) or UNSET,
        scopes_supported=[scope for scope in scopes if scope != "offline_access"] or UNSET,
        bearer_methods_supported=["header"],
        resource_name=name,
        dpop_signing_alg_values_supported=list(proofs) or UNSET,
    )
    return msgspec.json.encode(msgspec.structs.replace(found, **(described or {})))


def read(document: bytes) -> ProtectedResource:
    """Parse the metadata of another server.

    Raises:
        ValueError: it is not JSON, or a member is missing or has another type. The message says which.
    """
    try:
        return msgspec.json.decode(document, type=ProtectedResource)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the protected resource metadata cannot be read: {error}") from None


def canonical(url: str) -> str:
    """Return ``url`` as a resource id: scheme and host in lower case, no fragment, no trailing slash after
    the host.

    Raises:
        ValueError: it is not an absolute http(s) URL.
    """
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"a resource must be an absolute http or https URL, not {url[:200]!r}")
    path = "" if parts.path == "/" else parts.path
    return urlunsplit((scheme, parts.netloc.lower(), path, parts.query, ""))


def metadata_url(resource: str) -> str:
    """Return the metadata URL of ``resource``: the well-known path is inserted between host and path."""
    parts = urlsplit(canonical(resource))
    return urlunsplit((parts.scheme, parts.netloc, WELL_KNOWN + parts.path, parts.query, ""))


def is_url(text: Any) -> bool:
    """Return whether ``text`` is an absolute http(s) URL."""
    try:
        canonical(text)
    except (ValueError, AttributeError, TypeError):
        return False
    return True
