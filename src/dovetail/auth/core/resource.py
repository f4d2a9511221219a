"""A protected resource and its metadata (RFC 9728): what it is called, where it says so, and whom it trusts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import UNSET, Struct, UnsetType

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


class ProtectedResource(Struct, omit_defaults=True):
    """The metadata document. Members nobody here looks at are left out."""

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
    """The metadata we serve, encoded; what is ``described`` stands in place of what is found."""
    # MCP 2026-07-28, Protected Resource Metadata: tokens come in the header alone.
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
    """The metadata somebody else serves.

    Raises:
        ValueError: it is not JSON, or a member is missing or of another type; the text says which.
    """
    try:
        return msgspec.json.decode(document, type=ProtectedResource)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the protected resource metadata cannot be read: {error}") from None


def canonical(url: str) -> str:
    """``url`` as the identifier of a resource: scheme and host in lower case, no fragment, no lonely slash.

    Raises:
        ValueError: it is no absolute http(s) URL.
    """
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"a resource is an absolute http or https URL, not {url[:200]!r}")
    path = "" if parts.path == "/" else parts.path
    return urlunsplit((scheme, parts.netloc.lower(), path, parts.query, ""))


def metadata_url(resource: str) -> str:
    """Where the metadata of ``resource`` lies: the well-known part stands between host and path."""
    parts = urlsplit(canonical(resource))
    return urlunsplit((parts.scheme, parts.netloc, WELL_KNOWN + parts.path, parts.query, ""))


def is_url(text: Any) -> bool:
    """Whether ``text`` could be fetched: an absolute http(s) URL."""
    try:
        canonical(text)
    except (ValueError, AttributeError, TypeError):
        return False
    return True
