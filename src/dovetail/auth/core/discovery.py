"""Discovery of the authorization server: from a challenge to the metadata of one issuer.

The order is fixed (Authorization 2025-11-25, 2026-07-28): the resource metadata that the challenge names,
else that of the path, else that of the root; then the metadata of the issuer in it. Servers of 2025-03-26
have no resource metadata: they are their own authorization server, with or without metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, Struct

from ...wire.revisions import ASSUMED
from . import oauth_urls, resource
from .auth_errors import AuthError, Fault
from .combined_challenge import Demand
from .resource import ProtectedResource
from .steps import Answer, Ask, Flow, Progress, ask

AUTHORIZATION_SERVERS: Final = 16
"""Issuers of one server that are considered."""


Strings = tuple[str, ...]


class ServerMetadata(Struct, frozen=True):
    """Authorization server metadata (RFC 8414, OpenID Connect Discovery)."""

    issuer: str
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    device_authorization_endpoint: str | None = None
    scopes_supported: Strings | None = None
    grant_types_supported: Strings | None = None
    code_challenge_methods_supported: Strings | None = None
    token_endpoint_auth_methods_supported: Strings | None = None
    client_id_metadata_document_supported: bool | None = None
    authorization_response_iss_parameter_supported: bool | None = None


class AuthorizationTarget(Struct, frozen=True):
    """The authorization server and the resource to get a token for."""

    resource: str
    server: ServerMetadata
    scopes: Strings | None = None
    """The scopes in the metadata of the server."""
    assumed: bool = False
    """Without metadata: the default endpoints of 2025-03-26 are used."""

    @property
    def issuer(self) -> str:
        return self.server.issuer

    @property
    def token_endpoint(self) -> str:
        """Return the endpoint. Raises: AuthError: it is missing."""
        return self.endpoint("token_endpoint", self.server.token_endpoint)

    def endpoint(self, name: str, url: str | None) -> str:
        """Return a required endpoint.

        Raises:
            AuthError: the metadata does not contain it.
        """
        if url is None:
            raise AuthError(f"the metadata of {self.issuer} has no {name}", fault="authorization server")
        return url


def discover(url: str, demand: Demand, known: Sequence[str] = ()) -> Flow[AuthorizationTarget]:
    """Find the authorization server of the MCP server at ``url``, preferably one of the ``known`` issuers.

    Raises:
        AuthError: it is missing, or its metadata is not valid.
    """
    found = yield from find_resource(url, demand)
    if found is None:
        return (yield from _as_in_2025_03_26(url))
    issuer = choose_issuer(found, known)
    server = yield from find_server(issuer)
    scopes = found.scopes_supported
    return AuthorizationTarget(found.resource, server, None if scopes is UNSET else tuple(scopes))


# --- the MCP server ---------------------------------------------------------------------------------------------------


def find_resource(url: str, demand: Demand) -> Flow[ProtectedResource | None]:
    """Return the metadata of the MCP server, or None if it has none.

    Raises:
        AuthError: the metadata belongs to another server.
    """
    places = oauth_urls.resource_metadata(url)
    if demand.resource_metadata is not None:
        named = "the resource_metadata of the challenge"
        oauth_urls.secure(demand.resource_metadata, named, "server")
        places = [demand.resource_metadata, *places]
    for place in places:
        answer = yield from _document(place, "the protected resource metadata", "server")
        if answer is None:
            continue
        try:
            found = resource.read(answer.body)
        except ValueError as error:
            raise AuthError(f"{place}: {error}", fault="server") from None
        check_resource(found, url)
        yield Progress("resource", f"{place} says that this is {found.resource}")
        return found
    return None


def check_resource(found: ProtectedResource, url: str) -> None:
    """Check that the metadata belongs to ``url``.

    RFC 9728, 3.3: the resource value returned MUST be identical to the identifier used.

    Raises:
        AuthError: it is another one, so a token for it would be valid at another server.
    """
    oauth_urls.secure(found.resource, "the resource of the protected resource metadata", "server")
    if not oauth_urls.covers(found.resource, url):
        raise AuthError(
            f"the protected resource metadata is for the resource {found.resource}, not for {resource.canonical(url)}",
            fault="server",
            advice="its resource must be the URL that clients use",
        )


def choose_issuer(found: ProtectedResource, known: Sequence[str]) -> str:
    """Choose the issuer: one with an existing registration, else the first.

    Raises:
        AuthError: the server names none.
    """
    issuers = (found.authorization_servers or [])[:AUTHORIZATION_SERVERS]
    if not issuers:
        raise AuthError(
            "the server has no OAuth: its protected resource metadata names no authorization_servers",
            fault="server",
            advice="ask its operator for a token, and pass it with auth=TOKEN, --auth TOKEN or DOVETAIL_TOKEN",
        )
    return next((issuer for issuer in issuers if issuer in known), issuers[0])


# --- the authorization server -----------------------------------------------------------------------------------------


def find_server(issuer: str) -> Flow[ServerMetadata]:
    """Return the metadata of ``issuer``, from the first well-known URL that answers.

    Raises:
        AuthError: it is missing, or it belongs to another issuer.
    """
    oauth_urls.secure(issuer, "the issuer of the authorization server", "server")
    places = oauth_urls.server_metadata(issuer)
    for place in places:
        answer = yield from _document(place, "the authorization server metadata", "authorization server")
        if answer is None:
            continue
        what = f"the authorization server metadata at {place}"
        found = answer.read(ServerMetadata, what, "authorization server")
        check_server(found, issuer)
        yield Progress("metadata", f"{place} describes the issuer {found.issuer}")
        return found
    raise AuthError(
        f"the issuer {issuer} has no metadata at {', '.join(places)}",
        fault="authorization server",
        advice="is the issuer in the server's authorization_servers right?",
    )


def check_server(found: ServerMetadata, *issuers: str) -> None:
    """Check the metadata of an issuer.

    RFC 8414, 3.3: the issuer value returned MUST be identical to the one that the URL was made of.

    Raises:
        AuthError: it is not, or an endpoint is not secure.
    """
    if found.issuer not in issuers:
        raise AuthError(
            f"the metadata names the issuer {found.issuer!r}, but was asked for {issuers[0]!r}",
            fault="authorization server",
            advice="both must be identical, character by character",
        )
    endpoints = {
        "authorization_endpoint": found.authorization_endpoint,
        "token_endpoint": found.token_endpoint,
        "registration_endpoint": found.registration_endpoint,
        "revocation_endpoint": found.revocation_endpoint,
        "device_authorization_endpoint": found.device_authorization_endpoint,
    }
    for name, url in endpoints.items():
        if url is not None:
            oauth_urls.secure(url, f"the {name} of {found.issuer}", "authorization server")


def _as_in_2025_03_26(url: str) -> Flow[AuthorizationTarget]:
    """Use a server without resource metadata as its own authorization server, at its root.

    Authorization 2025-03-26: clients that find no metadata MUST use the default endpoints.
    """
    base = oauth_urls.origin(resource.canonical(url))
    oauth_urls.secure(base, "the URL of the server", "server")
    place = f"{base}/.well-known/oauth-authorization-server"
    answer = yield from _document(place, "the authorization server metadata", "server")
    if answer is not None:
        found = answer.read(ServerMetadata, f"the authorization server metadata at {place}", "server")
        check_server(found, base, f"{base}/")
        yield Progress("metadata", f"{place} describes the issuer {found.issuer}, as in 2025-03-26")
        return AuthorizationTarget(resource.canonical(url), found)
    yield Progress("metadata", f"{base} has no metadata: the endpoints of 2025-03-26 are assumed")
    server = ServerMetadata(
        base,
        authorization_endpoint=f"{base}/authorize",
        token_endpoint=f"{base}/token",
        registration_endpoint=f"{base}/register",
        code_challenge_methods_supported=("S256",),
        token_endpoint_auth_methods_supported=("none", "client_secret_post", "client_secret_basic"),
    )
    return AuthorizationTarget(resource.canonical(url), server, assumed=True)


def _document(url: str, what: str, fault: Fault) -> Flow[Answer | None]:
    """Return the document at ``url``, or None if it does not exist."""
    headers = {"Accept": "application/json", "MCP-Protocol-Version": ASSUMED.name}
    answer = yield from ask(Ask(what=what, url=url, headers=headers, fault=fault))
    if answer.status >= 500:
        raise AuthError(f"{what} at {url} was answered with HTTP {answer.status}", fault=fault)
    return answer if answer.status == 200 else None
