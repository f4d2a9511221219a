"""Tokens that Supabase gives out."""

from __future__ import annotations

from typing import Any

from ..auth import ForwardingProvider, TokenVerifier
from ..configuring import configured
from .jwt import JWTVerifier


class SupabaseProvider(ForwardingProvider):
    """Users log in with a project of Supabase; clients register there."""

    @configured("SUPABASE", "project_url", "base_url")
    def __init__(
        self, *, project_url: Any, base_url: Any, auth_route: str = "/auth/v1", algorithm: str = "ES256",
        required_scopes: list[str] | None = None, token_verifier: TokenVerifier | None = None,
    ) -> None:  # fmt: skip
        self.project_url = str(project_url).rstrip("/")
        self.auth_route = auth_route.strip("/")
        issuer = f"{self.project_url}/{self.auth_route}"
        verifier = token_verifier or JWTVerifier(
            jwks_uri=f"{issuer}/.well-known/jwks.json", issuer=issuer, algorithm=algorithm,
            required_scopes=required_scopes,
        )  # fmt: skip
        super().__init__(verifier, issuer, base_url, f"{issuer}/.well-known/oauth-authorization-server")
