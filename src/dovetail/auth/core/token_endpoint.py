"""Requests to a token endpoint, with client authentication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from .auth_errors import AuthError
from .client_authentication import authenticate
from .discovery import AuthorizationTarget
from .registration import PRIVATE_KEY, SECRET_BASIC, SECRET_POST, ClientRegistration
from .steps import Answer, Ask, Flow, Prover, Sources, ask, post
from .token_error_response import read_error, refused
from .token_set import Tokens, read_tokens

ASSERTION_SECONDS: Final = 60.0
"""Lifetime of a signed client assertion in seconds."""


ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class Signer(Protocol):
    """The holder of the private key of a client."""

    def sign(self, claims: Mapping[str, Any]) -> str:
        """Return the claims as a signed JWT."""
        ...


def request_tokens(
    place: AuthorizationTarget,
    client: ClientRegistration,
    form: Mapping[str, str],
    sources: Sources,
    *,
    scopes: Sequence[str] = (),
    signer: Signer | None = None,
) -> Flow[Tokens]:
    """Request tokens for the resource (RFC 8707, Authorization 2025-06-18).

    Raises:
        AuthError: the token endpoint refused.
    """
    whole = {**form, "resource": place.resource}
    if scopes:
        whole["scope"] = " ".join(scopes)
    headers = authenticate_client(client, whole, sources, signer)
    request = post("the token", place.token_endpoint, whole, headers)
    answer = yield from ask_proving(request, sources.prover)
    if answer.status != 200:
        raise refused(answer, f"the token endpoint of {place.issuer} refused")
    return read_tokens(answer, sources.now(), proven=sources.prover is not None)


def ask_proving(request: Ask, prover: Prover | None) -> Flow[Answer]:
    """Send ``request`` with a DPoP proof, and again if the server requires a nonce (RFC 9449, 8)."""
    if prover is None:
        return (yield from ask(request))
    answer = yield from _proven(request, prover)
    if answer.status in (400, 401) and read_error(answer)[0] == "use_dpop_nonce":
        return (yield from _proven(request, prover))
    return answer


def _proven(request: Ask, prover: Prover) -> Flow[Answer]:
    headers = {**request.headers, "DPoP": prover.proof(request.method, request.url)}
    answer: Answer = yield Ask(
        what=request.what,
        url=request.url,
        method=request.method,
        headers=headers,
        body=request.body,
        configured=request.configured,
    )
    nonce = answer.headers.get("DPoP-Nonce")
    if nonce is not None:
        prover.take_nonce(request.url, nonce)
    return answer


def authenticate_client(
    client: ClientRegistration, form: dict[str, str], sources: Sources, signer: Signer | None = None
) -> dict[str, str]:
    """Authenticate the client, in ``form`` or in the returned headers.

    Raises:
        AuthError: the required authentication method is not available.
    """
    headers = authenticate(form, client.client_id, client.method, client.client_secret)
    if client.method in (SECRET_BASIC, SECRET_POST) and client.client_secret is not None:
        return headers
    if client.method == PRIVATE_KEY and signer is not None:
        form["client_assertion_type"] = ASSERTION_TYPE
        form["client_assertion"] = signer.sign(assertion(client, sources))
    elif client.method in (SECRET_BASIC, SECRET_POST, PRIVATE_KEY):
        raise AuthError(
            f"the authorization server {client.issuer} wants {client.method} of this client",
            fault="client",
            advice="give what that needs: client_secret, or private_key",
        )
    return {}


def assertion(client: ClientRegistration, sources: Sources) -> dict[str, Any]:
    """Return the claims of a client assertion (RFC 7523, 3)."""
    now = int(sources.now())
    return {
        "iss": client.client_id,
        "sub": client.client_id,
        "aud": client.issuer,
        "iat": now,
        "exp": now + int(ASSERTION_SECONDS),
        "jti": sources.random(),
    }


def refresh(
    place: AuthorizationTarget,
    client: ClientRegistration,
    tokens: Tokens,
    sources: Sources,
    signer: Signer | None = None,
) -> Flow[Tokens | None]:
    """Refresh the tokens. Return None if the refresh token is no longer valid.

    The new refresh token replaces the old one, which is valid once (Authorization 2025-06-18: rotation).

    Raises:
        AuthError: the authorization server failed; the refresh token may still be valid.
    """
    if tokens.refresh_token is None:
        return None
    form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
    try:
        new = yield from request_tokens(place, client, form, sources, signer=signer)
    except AuthError as error:
        if error.error in _LOST:
            return None
        raise
    kept = new.refresh_token or tokens.refresh_token
    return Tokens(
        access_token=new.access_token,
        token_type=new.token_type,
        expires_at=new.expires_at,
        lifetime=new.lifetime,
        refresh_token=kept,
        scopes=tokens.scopes if new.scopes is None else new.scopes,
    )


_LOST = frozenset(
    {
        "invalid_grant",
        "invalid_client",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
        "invalid_target",
    }
)
"""Errors after which only a new authorization helps."""


def revoke(
    place: AuthorizationTarget,
    client: ClientRegistration,
    tokens: Tokens,
    sources: Sources,
    signer: Signer | None = None,
) -> Flow[bool]:
    """Revoke the tokens, the refresh token first (RFC 7009). Return whether the server supports that."""
    endpoint = place.server.revocation_endpoint
    if endpoint is None:
        return False
    kinds = (("refresh_token", tokens.refresh_token), ("access_token", tokens.access_token))
    for kind, token in kinds:
        if token is not None:
            form = {"token": token, "token_type_hint": kind}
            headers = authenticate_client(client, form, sources, signer)
            answer = yield from ask(post("the revocation", endpoint, form, headers))
            if answer.status != 200 and read_error(answer)[0] != "unsupported_token_type":
                raise refused(answer, f"{place.issuer} refused to revoke the {kind.replace('_', ' ')}")
    return True
