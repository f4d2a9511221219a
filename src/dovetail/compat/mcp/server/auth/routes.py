"""The routes of a program's own authorization server, for Starlette."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import AnyHttpUrl
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, request_response

from .....auth.core.client_metadata import METHODS
from .....auth.core.resource import metadata_url
from .....auth.core.urls import is_loopback
from .....auth.proxy.pages import ANYBODY
from .....auth.server.pages import Page, PageAnswer, PageRequest
from ...shared.auth import OAuthMetadata, ProtectedResourceMetadata
from .endpoints import Endpoints
from .settings import ClientRegistrationOptions, RevocationOptions

_WELL_KNOWN: Final = "/.well-known/oauth-authorization-server"


def cors_middleware(handler: Any, allow_methods: list[str]) -> Any:
    """``handler``, which pages of any origin may ask."""
    headers = ["mcp-protocol-version"]
    return CORSMiddleware(
        request_response(handler), ["*"], allow_methods=allow_methods, allow_headers=headers
    )


def build_metadata(
    issuer_url: AnyHttpUrl,
    service_documentation_url: AnyHttpUrl | None,
    client_registration_options: ClientRegistrationOptions,
    revocation_options: RevocationOptions,
) -> OAuthMetadata:
    """What clients are told of the server at ``issuer_url``.

    Raises:
        ValueError: tokens of such an issuer would not be safe, or not found (RFC 8414, 2).
    """
    if issuer_url.scheme != "https" and not is_loopback(issuer_url.host or ""):
        raise ValueError("Issuer URL must be HTTPS")
    if issuer_url.fragment or issuer_url.query:
        raise ValueError("Issuer URL must not have a fragment or a query string")
    base, revokes = str(issuer_url).rstrip("/"), revocation_options.enabled
    return OAuthMetadata.model_validate(
        {
            "issuer": issuer_url,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "registration_endpoint": f"{base}/register" if client_registration_options.enabled else None,
            "scopes_supported": client_registration_options.valid_scopes,
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": list(METHODS),
            "service_documentation": service_documentation_url,
            "revocation_endpoint": f"{base}/revoke" if revokes else None,
            "revocation_endpoint_auth_methods_supported": list(METHODS) if revokes else None,
            "code_challenge_methods_supported": ["S256"],
        }
    )


def create_auth_routes(
    provider: Any,
    issuer_url: AnyHttpUrl,
    service_documentation_url: AnyHttpUrl | None = None,
    client_registration_options: ClientRegistrationOptions | None = None,
    revocation_options: RevocationOptions | None = None,
) -> list[Route]:
    """Where clients find the authorization server that ``provider`` is."""
    registration = client_registration_options or ClientRegistrationOptions()
    revocation = revocation_options or RevocationOptions()
    metadata = build_metadata(issuer_url, service_documentation_url, registration, revocation)
    pages = Endpoints(provider, metadata, registration)
    below = urlsplit(str(issuer_url)).path.rstrip("/")
    routes = [
        page_route(path, pages.metadata, "GET") for path in dict.fromkeys((_WELL_KNOWN, _WELL_KNOWN + below))
    ]
    routes += [
        page_route("/authorize", pages.authorize, "GET", "POST"),
        page_route("/token", pages.token, "POST"),
    ]
    if registration.enabled:
        routes.append(page_route("/register", pages.register, "POST"))
    if revocation.enabled:
        routes.append(page_route("/revoke", pages.revoke, "POST"))
    return routes


def create_protected_resource_routes(
    resource_url: AnyHttpUrl,
    authorization_servers: list[AnyHttpUrl],
    scopes_supported: list[str] | None = None,
    resource_name: str | None = None,
    resource_documentation: AnyHttpUrl | None = None,
) -> list[Route]:
    """Where clients are told who gives out tokens for ``resource_url`` (RFC 9728)."""
    said = ProtectedResourceMetadata(
        resource=resource_url, authorization_servers=authorization_servers, scopes_supported=scopes_supported,
        resource_name=resource_name, resource_documentation=resource_documentation,
    )  # fmt: skip
    body = said.model_dump_json(exclude_none=True).encode()

    async def page(_: PageRequest) -> PageAnswer:
        return PageAnswer(200, body, ANYBODY)

    return [page_route(urlsplit(metadata_url(str(resource_url))).path, page, "GET")]


def build_resource_metadata_url(resource_server_url: AnyHttpUrl) -> AnyHttpUrl:
    """Where the metadata of a resource lies (RFC 9728, 3.1)."""
    return AnyHttpUrl(metadata_url(str(resource_server_url)))


def page_route(path: str, page: Page, *methods: str) -> Route:
    """A page of ours as a route of Starlette."""

    async def answer(request: Request) -> Response:
        if request.method == "OPTIONS":  # what browsers ask before a page of another origin may
            return Response(status_code=204, headers=dict(ANYBODY))
        asked = PageRequest(
            request.method, request.url.query, request.headers, await request.body(), frozenset()
        )
        said = await page(asked)
        return Response(said.body, said.status, dict(said.headers), said.kind if said.body else None)

    return Route(path, answer, methods=[*methods, "OPTIONS"])
