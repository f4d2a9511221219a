"""The authorization request in the browser, and its response."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from urllib.parse import parse_qs, urlencode, urlsplit

from . import oauth_urls
from .auth_errors import AuthError
from .discovery import AuthorizationTarget
from .pkce import s256
from .registration import ClientRegistration
from .scope_choice import OFFLINE
from .steps import Quiet, Sources
from .token_error_response import code_of, refusal, words_of


class Pending(Quiet, frozen=True, kw_only=True):
    """The state of an authorization request until the redirect arrives. Used once."""

    state: str
    verifier: str
    issuer: str
    redirect_uri: str
    iss_expected: bool
    """The authorization server states that its responses contain ``iss`` (RFC 9207)."""


def begin(
    place: AuthorizationTarget,
    client: ClientRegistration,
    redirect_uri: str,
    scopes: Sequence[str],
    sources: Sources,
) -> tuple[str, Pending]:
    """Return the URL to visit, and the state to keep until the redirect.

    Raises:
        AuthError: the authorization server has no authorization endpoint.
    """
    endpoint = place.endpoint("authorization_endpoint", place.server.authorization_endpoint)
    pending = Pending(
        state=sources.random(),
        verifier=sources.random(),
        issuer=place.issuer,
        redirect_uri=redirect_uri,
        iss_expected=bool(place.server.authorization_response_iss_parameter_supported),
    )
    query = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect_uri,
        "state": pending.state,
        "code_challenge": s256(pending.verifier),
        "code_challenge_method": "S256",
        "resource": place.resource,
    }
    if scopes:
        query["scope"] = " ".join(scopes)
    if OFFLINE in scopes:
        query["prompt"] = "consent"  # OpenID Connect Core, 11: offline_access is ignored without it
    if sources.prover is not None:
        query["dpop_jkt"] = sources.prover.thumbprint
    oauth_urls.secure(endpoint, "the authorization_endpoint", "authorization server")
    return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(query)}", pending


def read_redirect(url: str, pending: Pending) -> str:
    """Return the authorization code in the redirect.

    Raises:
        AuthError: it belongs to another login or issuer, or is a refusal.
    """
    if not same_address(url, pending.redirect_uri):
        raise AuthError("the browser was redirected to another redirect URI than requested", fault="client")
    query = parse_qs(urlsplit(url).query, keep_blank_values=True)
    twice = next((name for name in ("state", "iss", "code", "error") if len(query.get(name, ())) > 1), None)
    if twice is not None:
        raise AuthError(f"the authorization response contains {twice} twice", fault="authorization server")
    given = {name: values[0] for name, values in query.items()}
    if not same_state(given.get("state"), pending.state):
        raise AuthError(
            "the state of the authorization response belongs to another login",
            fault="user",
            advice="log in again, in the most recent browser window",
        )
    _check_issuer(given.get("iss"), pending)
    if "error" in given:
        code, words = code_of(given["error"]), words_of(given.get("error_description"))
        raise refusal(f"{pending.issuer} did not authorize this client", code, words)
    if not given.get("code"):
        raise AuthError("the authorization response has no code", fault="authorization server")
    return given["code"]


def _check_issuer(iss: str | None, pending: Pending) -> None:
    """Check ``iss`` by the table of 2026-07-28 (RFC 9207): exact comparison, also for refusals."""
    if iss is None and pending.iss_expected:
        raise AuthError(
            f"the authorization response has no iss, although {pending.issuer} declares that it sends it",
            fault="authorization server",
        )
    if iss is not None and iss != pending.issuer:
        raise AuthError(
            f"the iss of the authorization response is not the issuer {pending.issuer} of this login; "
            "the response may come from an attacker",
            fault="authorization server",
        )


def same_state(given: str | None, wanted: str) -> bool:
    return given is not None and hmac.compare_digest(given.encode(), wanted.encode())


def same_address(url: str, redirect_uri: str) -> bool:
    """Return whether ``url`` is the redirect URI with a response in its query."""
    ours, theirs = urlsplit(redirect_uri), urlsplit(url)
    return (ours.scheme, ours.netloc, ours.path or "/") == (theirs.scheme, theirs.netloc, theirs.path or "/")
