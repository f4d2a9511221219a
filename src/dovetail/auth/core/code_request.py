"""Requests to the OAuth proxy: parsing and validation of authorization and token requests."""

from __future__ import annotations

import hmac
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

from msgspec import Struct

from . import oauth_urls
from .oauth_error import Denial
from .pkce import s256
from .scopes import scope_list

PARAMETER_LENGTH: Final = 4096
"""Characters of one parameter."""


_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")


class CodeRequest(Struct, frozen=True):
    """A validated authorization request."""

    client_id: str
    redirect_uri: str
    scopes: tuple[str, ...]
    challenge: str
    state: str | None = None


def parameters(text: str) -> dict[str, str]:
    """Parse a query or a form. Parameters without a value count as missing (RFC 6749, 3.1).

    Raises:
        Denial: a parameter is repeated or too long.
    """
    try:
        pairs = parse_qsl(text, max_num_fields=50, errors="strict")
    except ValueError:
        raise Denial("invalid_request", "the parameters cannot be read") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise Denial("invalid_request", f"the parameter {_shown(name)} is repeated")
        if len(value) > PARAMETER_LENGTH:
            raise Denial("invalid_request", f"the parameter {_shown(name)} is too long")
        found[name] = value
    return found


def read_code_request(
    given: Mapping[str, str], redirect_uri: str, resource: str, offered: Iterable[str], basic: Iterable[str]
) -> CodeRequest:
    """Return the authorization request; client and redirect URI are already validated.

    Unknown scopes are dropped from the grant. Without scopes, all ``basic`` scopes are requested.

    Raises:
        Denial: it cannot be granted. The client gets the error.
    """
    if given.get("response_type") != "code":
        raise Denial("unsupported_response_type", "response_type must be code")
    if given.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(
        given.get("code_challenge", "")
    ):
        raise Denial("invalid_request", "PKCE with code_challenge_method S256 is required")
    check_resource(given.get("resource"), resource)
    try:
        wanted = scope_list(given.get("scope", ""))
    except ValueError:
        raise Denial("invalid_scope", "scope must be a list of scope names") from None
    known = {*offered, *basic}
    scopes = tuple(dict.fromkeys([*(scope for scope in wanted if scope in known), *basic]))
    return CodeRequest(given["client_id"], redirect_uri, scopes, given["code_challenge"], given.get("state"))


def check_resource(given: str | None, resource: str) -> None:
    """Check the requested resource (RFC 8707): tokens are for this server only.

    Raises:
        Denial: it is another resource.
    """
    try:
        ours = given is None or oauth_urls.covers(given, resource)
    except ValueError:
        ours = False
    if not ours:
        raise Denial("invalid_target", "this server issues no tokens for other resources")


def proves(verifier: str | None, challenge: str) -> bool:
    """Return whether ``verifier`` matches ``challenge`` (RFC 7636, 4.6)."""
    found = verifier is not None and _VERIFIER.fullmatch(verifier)
    return bool(found) and hmac.compare_digest(s256(verifier or "").encode(), challenge.encode())


def basic_credentials(header: str | None) -> tuple[str, str] | None:
    """Return client id and secret of an ``Authorization`` header (RFC 6749, 2.3.1), or None."""
    scheme, _, text = (header or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, separator, secret = b64decode(text, validate=True).decode().partition(":")
    except ValueError:
        return None
    return (unquote_plus(name), unquote_plus(secret)) if separator else None


def redirect_to(uri: str, answer: Mapping[str, str | None]) -> str:
    """Add ``answer`` to the query of ``uri``. Values that are None are left out."""
    query = urlencode({name: value for name, value in answer.items() if value is not None})
    return f"{uri}{'&' if urlsplit(uri).query else '?'}{query}"


def _shown(name: str) -> str:
    return "".join(each for each in name[:40] if each.isalnum() or each in "_-.")
