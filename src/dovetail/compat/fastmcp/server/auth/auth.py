"""Who may call: the providers of FastMCP, which our server asks through a verifier of ours."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

from pydantic import AnyHttpUrl

from .....auth.server.verifier import Verifier
from ....common import auth
from ....mcp.server.auth.provider import (
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
)
from ....mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from .access import AccessToken

__all__ = [
    "AccessToken", "AuthProvider", "AuthorizationCode", "AuthorizationParams", "ClientRegistrationOptions",
    "ForwardingProvider", "MultiAuth",
    "OAuthProvider", "RefreshToken", "RemoteAuthProvider", "RevocationOptions", "TokenVerifier", "provider_class",
]  # fmt: skip


class AuthProvider:
    """Verifies tokens: inherit it and write `verify_token`."""

    def __init__(
        self, base_url: Any = None, required_scopes: list[str] | None = None, resource_base_url: Any = None
    ) -> None:
        self.base_url: AnyHttpUrl | None = None if base_url is None else AnyHttpUrl(str(base_url))
        self.required_scopes: list[str] = required_scopes or []
        self.resource_base_url = None if resource_base_url is None else str(resource_base_url).rstrip("/")
        self._mcp_path: str | None = None

    async def verify_token(self, token: str) -> Any:
        """What a token says, as an `AccessToken`; None when it is not good."""
        raise NotImplementedError("Subclasses must implement verify_token")

    def set_mcp_path(self, mcp_path: str | None) -> None:
        self._mcp_path = mcp_path

    def get_routes(self, mcp_path: str | None = None) -> list[Any]:
        """Further routes of Starlette that belong to it."""
        return []

    def get_middleware(self) -> list[Any]:
        """Middleware of Starlette that belongs to it; ours verifies tokens without any."""
        return []

    def resource(self, mcp_path: str | None = None) -> str | None:
        """The public address of the endpoint."""
        base = self.resource_base_url or self.base_url
        return None if base is None else str(base).rstrip("/") + (mcp_path or self._mcp_path or "/mcp")

    def get_well_known_routes(self, mcp_path: str | None = None) -> list[Any]:
        """Those of its routes that belong at the root of a host, wherever the rest is mounted."""
        return [one for one in self.get_routes(mcp_path) if one.path.startswith("/.well-known/")]

    def issuers(self) -> list[str]:
        """Where clients get their tokens."""
        return []

    def described(self) -> dict[str, Any]:
        """What clients are told of this server beside where they get their tokens (RFC 9728)."""
        return {}

    def as_verifier(self) -> Verifier:
        """The verifier of ours that asks this one."""
        return auth.TokenVerifier(
            self.verify_token, issuers=self.issuers(), audience=self.resource(), scopes=self.required_scopes,
            described=self.described(),
        )  # fmt: skip


class TokenVerifier(AuthProvider):
    """Verifies tokens that others give out."""


class RemoteAuthProvider(AuthProvider):
    """Tokens of authorization servers elsewhere, which clients are told of."""

    def __init__(
        self, token_verifier: TokenVerifier, authorization_servers: list[Any], base_url: Any,
        scopes_supported: list[str] | None = None, resource_base_url: Any = None,
        resource_name: str | None = None, resource_documentation: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(base_url, token_verifier.required_scopes, resource_base_url)
        self.token_verifier = token_verifier
        self.authorization_servers = authorization_servers
        self._described: dict[str, Any] = {
            "scopes_supported": scopes_supported, "resource_name": resource_name,
            "resource_documentation": None if resource_documentation is None else str(resource_documentation),
        }  # fmt: skip

    async def verify_token(self, token: str) -> Any:
        return await self.token_verifier.verify_token(token)

    def issuers(self) -> list[str]:
        return [str(AnyHttpUrl(str(one))) for one in self.authorization_servers]

    def get_routes(self, mcp_path: str | None = None) -> list[Any]:
        """What clients are told, for applications that show it themselves."""
        from ....mcp.server.auth.routes import create_protected_resource_routes

        where = self.resource(mcp_path) if mcp_path else str(self.base_url)
        return create_protected_resource_routes(
            AnyHttpUrl(str(where)), self.authorization_servers, **self._described
        )

    def described(self) -> dict[str, Any]:
        return {name: value for name, value in self._described.items() if value is not None}


class ForwardingProvider(RemoteAuthProvider):
    """Tokens of one authorization server, whose description clients may also ask of this server."""

    def __init__(
        self, verifier: TokenVerifier, issuer: str, base_url: Any, metadata: str, **options: Any
    ) -> None:
        super().__init__(verifier, [AnyHttpUrl(issuer)], base_url, **options)
        self._metadata = metadata

    def get_routes(self, mcp_path: str | None = None) -> list[Any]:
        from starlette.responses import JSONResponse
        from starlette.routing import Route

        from .....auth.client.guarding import AddressGuard
        from .....auth.server.documents import fetch
        from .....auth.server.verifier import Unavailable

        async def description(_: Any) -> Any:
            try:
                found = await fetch(self._metadata, guard=AddressGuard(self._metadata, allow_private=True))
            except Unavailable as error:
                return JSONResponse({"error": "server_error", "error_description": str(error)}, 500)
            return JSONResponse(found)

        place = "/.well-known/oauth-authorization-server"
        return [*super().get_routes(mcp_path), Route(place, description, methods=["GET"])]


class OAuthProvider(
    AuthProvider, OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]
):  # type: ignore[type-var]
    """An authorization server of the program's own: inherit it and write what it decides."""

    def __init__(
        self, *, base_url: Any, issuer_url: Any = None, service_documentation_url: Any = None,
        client_registration_options: ClientRegistrationOptions | None = None,
        revocation_options: RevocationOptions | None = None, required_scopes: list[str] | None = None,
        resource_base_url: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(base_url, required_scopes, resource_base_url)
        self.issuer_url = str(issuer_url or base_url).rstrip("/")
        self.service_documentation_url = service_documentation_url
        self.client_registration_options = client_registration_options
        self.revocation_options = revocation_options

    async def verify_token(self, token: str) -> Any:
        return await self.load_access_token(token)

    def issuers(self) -> list[str]:
        return [self.issuer_url]

    def get_routes(self, mcp_path: str | None = None) -> list[Any]:
        """The endpoints of the authorization server."""
        from ....mcp.server.auth.routes import create_auth_routes

        options = self.client_registration_options, self.revocation_options
        routes = create_auth_routes(
            self, AnyHttpUrl(self.issuer_url), self.service_documentation_url, *options
        )
        return list(routes)


class MultiAuth(AuthProvider):
    """Accepts what any of several accepts."""

    def __init__(
        self, server: AuthProvider | None = None, verifiers: Any = None, base_url: Any = None,
        resource_base_url: Any = None, required_scopes: list[str] | None = None,
    ) -> None:  # fmt: skip
        scopes = required_scopes or (server.required_scopes if server is not None else None)
        super().__init__(
            base_url or (server.base_url if server is not None else None), scopes, resource_base_url
        )
        several = isinstance(verifiers, list)
        given: list[Any] = (
            cast("list[Any]", verifiers) if several else [] if verifiers is None else [verifiers]
        )
        self.server = server
        self.verifiers: list[Any] = given

    async def verify_token(self, token: str) -> Any:
        for one in [*([] if self.server is None else [self.server]), *self.verifiers]:
            found = await one.verify_token(token)
            if found is not None:
                return found
        return None

    def issuers(self) -> list[str]:
        return [] if self.server is None else self.server.issuers()


def provider_class(name: str) -> type[AuthProvider]:
    """The provider whose path ``FASTMCP_SERVER_AUTH`` gives; its own variables are read by itself."""
    module, _, kind = name.rpartition(".")
    if module.startswith("fastmcp."):
        module = f"{__name__.partition('.fastmcp.')[0]}.{module}"
    return vars(import_module(module))[kind]
