"""Tokens that Scalekit gives out."""

from __future__ import annotations

from typing import Any

from ..auth import ForwardingProvider, TokenVerifier
from ..configuring import configured
from .jwt import JWTVerifier


class ScalekitProvider(ForwardingProvider):
    """Users log in with an environment of Scalekit; clients register there."""

    @configured("SCALEKITPROVIDER", "environment_url", "resource_id")
    def __init__(
        self, *, environment_url: Any, resource_id: str, base_url: Any = None, mcp_url: Any = None,
        client_id: str | None = None, required_scopes: list[str] | None = None,
        token_verifier: TokenVerifier | None = None,
    ) -> None:  # fmt: skip
        if (base_url or mcp_url) is None:
            raise ValueError("Either base_url or mcp_url must be provided for ScalekitProvider")
        self.environment_url, self.resource_id = str(environment_url).rstrip("/"), resource_id
        verifier = token_verifier or JWTVerifier(
            jwks_uri=f"{self.environment_url}/keys",
            issuer=self.environment_url,
            required_scopes=required_scopes,
        )
        issuer = f"{self.environment_url}/resources/{resource_id}"
        metadata = f"{self.environment_url}/.well-known/oauth-authorization-server/resources/{resource_id}"
        super().__init__(verifier, issuer, base_url or mcp_url, metadata)
