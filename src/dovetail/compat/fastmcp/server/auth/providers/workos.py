"""Logging in with WorkOS, and AuthKit as an authorization server of its own."""

from typing import Any

from ..auth import ForwardingProvider, TokenVerifier
from ..configuring import configured
from ..oidc_proxy import PresetProvider
from .jwt import JWTVerifier


class WorkOSProvider(PresetProvider):
    """Users log in with WorkOS."""

    preset = "workos"

    @configured("WORKOS", "client_id", "client_secret", "authkit_domain")
    def __init__(self, *, authkit_domain: str, **options: Any) -> None:
        super().__init__(**options)
        self._place["domain"] = authkit_domain.removeprefix("https://").rstrip("/")


class AuthKitProvider(ForwardingProvider):
    """Tokens that AuthKit gives out; clients register there."""

    @configured("AUTHKITPROVIDER", "authkit_domain", "base_url")
    def __init__(
        self, *, authkit_domain: Any, base_url: Any, required_scopes: list[str] | None = None,
        token_verifier: TokenVerifier | None = None, **options: Any,
    ) -> None:  # fmt: skip
        domain = str(authkit_domain).rstrip("/")
        self.authkit_domain = domain = domain if "://" in domain else f"https://{domain}"
        verifier = token_verifier or JWTVerifier(
            jwks_uri=f"{domain}/oauth2/jwks", issuer=domain, required_scopes=required_scopes
        )
        metadata = f"{domain}/.well-known/oauth-authorization-server"
        super().__init__(verifier, domain, base_url, metadata, **options)
