"""Logging in with WorkOS, and AuthKit as an authorization server of its own."""

from typing import Any

from ..auth import RemoteAuthProvider, TokenVerifier
from ..oidc_proxy import PresetProvider
from .jwt import JWTVerifier


class WorkOSProvider(PresetProvider):
    """Users log in with WorkOS."""

    preset = "workos"

    def __init__(self, *, authkit_domain: str, **options: Any) -> None:
        super().__init__(**options)
        self._place["domain"] = authkit_domain.removeprefix("https://").rstrip("/")


class AuthKitProvider(RemoteAuthProvider):
    """Tokens that AuthKit gives out; clients register there."""

    def __init__(
        self, *, authkit_domain: Any, base_url: Any, required_scopes: list[str] | None = None,
        token_verifier: TokenVerifier | None = None, **options: Any,
    ) -> None:  # fmt: skip
        domain = str(authkit_domain).rstrip("/")
        domain = domain if domain.startswith("https://") else f"https://{domain}"
        verifier = token_verifier or JWTVerifier(
            jwks_uri=f"{domain}/oauth2/jwks", issuer=domain, required_scopes=required_scopes
        )
        super().__init__(verifier, [domain], base_url, **options)
