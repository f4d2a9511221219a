"""Logging in at a provider that registers no MCP clients, through our own proxy for such providers."""

from __future__ import annotations

from typing import Any

from ......auth.proxy.proxy import OAuthProxy as NativeProxy
from ..auth import TokenVerifier
from ..oidc_proxy import ProxyProvider
from .models import ProxyDCRClient

__all__ = ["OAuthProxy", "ProxyDCRClient"]


class OAuthProxy(ProxyProvider):
    """`ProxyProvider` for a provider whose endpoints are named; ``token_verifier`` tells whose token is good."""

    def __init__(
        self, *, upstream_authorization_endpoint: str, upstream_token_endpoint: str, upstream_client_id: str,
        upstream_client_secret: str | None = None, upstream_revocation_endpoint: str | None = None,
        token_verifier: TokenVerifier, base_url: Any, valid_scopes: list[str] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        self._places: dict[str, Any] = {
            "authorize": upstream_authorization_endpoint, "token": upstream_token_endpoint,
            "client_id": upstream_client_id, "client_secret": upstream_client_secret,
            "revocation": upstream_revocation_endpoint,
        }  # fmt: skip
        scopes = token_verifier.required_scopes
        super().__init__(
            base_url, scopes, token_verifier=token_verifier, valid_scopes=valid_scopes, **options
        )

    def proxy(self, audience: str) -> NativeProxy:
        return NativeProxy(audience=audience, **self._places, **self._settings)
