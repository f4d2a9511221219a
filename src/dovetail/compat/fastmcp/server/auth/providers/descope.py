"""Tokens that Descope gives out."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from ..auth import ForwardingProvider, TokenVerifier
from ..configuring import configured
from .jwt import JWTVerifier


class DescopeProvider(ForwardingProvider):
    """Users log in with a project of Descope; clients register there."""

    @configured("DESCOPEPROVIDER", "base_url")
    def __init__(
        self, *, config_url: Any = None, project_id: str | None = None, descope_base_url: Any = None,
        base_url: Any, required_scopes: list[str] | None = None, token_verifier: TokenVerifier | None = None,
    ) -> None:  # fmt: skip
        if config_url is not None:
            issuer = str(config_url).removesuffix("/.well-known/openid-configuration")
            where = urlsplit(issuer)
            before, _, after = where.path.partition("/agentic/")
            project_id = after.partition("/")[0]
            if not before or not project_id:
                raise ValueError(f"Could not find 'agentic' in config_url path: {issuer}")
            self.descope_base_url = f"{where.scheme}://{where.netloc}"
        elif project_id is not None and descope_base_url is not None:
            place = str(descope_base_url).rstrip("/")
            self.descope_base_url = place if "://" in place else f"https://{place}"
            issuer = f"{self.descope_base_url}/v1/apps/{project_id}"
        else:
            raise ValueError(
                "Either config_url (new API) or both project_id and descope_base_url (old API) must be provided"
            )
        self.project_id = project_id
        verifier = token_verifier or JWTVerifier(
            jwks_uri=f"{self.descope_base_url}/{project_id}/.well-known/jwks.json", issuer=issuer,
            audience=project_id, required_scopes=required_scopes,
        )  # fmt: skip
        metadata = f"{self.descope_base_url}/v1/apps/{project_id}/.well-known/oauth-authorization-server"
        super().__init__(verifier, issuer, base_url, metadata)
