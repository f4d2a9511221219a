"""Verifiers of others over ours: whatever has ``verify_token(token)`` tells who is calling."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from ...auth.server.verifier import Scope, Verifier
from ...core.principal import Principal


class TokenPrincipal(Principal, frozen=True, eq=False):
    """Who a token belongs to, and what its verifier said of it."""

    access_token: Any = None


def principal_of(token: Any) -> TokenPrincipal:
    """The principal that an access token of others stands for."""
    claims: dict[str, Any] = dict(getattr(token, "claims", None) or {})
    if token.expires_at is not None:
        claims["exp"] = token.expires_at
    subject = getattr(token, "subject", None) or claims.get("sub") or token.client_id
    return TokenPrincipal(
        str(subject), claims.get("iss"), frozenset(token.scopes), claims, token.client_id, access_token=token
    )


class TokenVerifier(Verifier):
    """Asks ``verify_token`` of an object of others."""

    def __init__(
        self, verify_token: Any, *, issuers: Iterable[str] = (), audience: str | None = None,
        scopes: Iterable[str] = (), described: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(scopes=scopes)
        self._verify_token = verify_token
        self.described = described or {}
        self.issuers = tuple(issuers)
        self.audience = audience

    async def verify(self, token: str, scope: Scope) -> Principal | None:
        found = await self._verify_token(token)
        over = found is not None and found.expires_at and found.expires_at < time.time()
        return None if found is None or over else principal_of(found)


def verifier_of(token_verifier: Any, settings: Any, provider: Any) -> Verifier:
    """What the SDK's FastMCP was given to verify tokens with, as one of ours."""
    verify = token_verifier.verify_token if token_verifier is not None else provider.load_access_token
    members: Mapping[str, Any] = {} if settings is None else _settings(settings)
    return TokenVerifier(verify, **members)


def _settings(settings: Any) -> dict[str, Any]:
    resource = settings.resource_server_url
    return {
        "issuers": [str(settings.issuer_url).rstrip("/")],
        "audience": None if resource is None else str(resource).rstrip("/"),
        "scopes": settings.required_scopes or (),
    }
