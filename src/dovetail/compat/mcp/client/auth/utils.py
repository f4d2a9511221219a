"""The steps of OAuth that programs of SDK 1.x take one by one; our own flows are in `dovetail.auth`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

from pydantic import AnyUrl, ValidationError

from .....auth.core import challenge, urls
from .....auth.core.problems import AuthError
from .....auth.core.registration import check_document_url
from ...shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from ...types import LATEST_PROTOCOL_VERSION
from .exceptions import OAuthFlowError, OAuthRegistrationError, OAuthTokenError

if TYPE_CHECKING:
    from httpx import Request, Response

_VERSION: Final = {"MCP-Protocol-Version": LATEST_PROTOCOL_VERSION}


def extract_field_from_www_auth(response: Response, field_name: str) -> str | None:
    """What a challenge says under this name."""
    for one in challenge.read(response.headers.get_list("WWW-Authenticate")):
        if one.parameters.get(field_name.lower()):
            return one.parameters[field_name.lower()]
    return None


def extract_scope_from_www_auth(response: Response) -> str | None:
    """The scopes that a challenge asks for."""
    return extract_field_from_www_auth(response, "scope")


def extract_resource_metadata_from_www_auth(response: Response) -> str | None:
    """Where the metadata of the server is that refused."""
    if response.status_code not in (401, 403):
        return None
    return extract_field_from_www_auth(response, "resource_metadata")


def build_protected_resource_metadata_discovery_urls(www_auth_url: str | None, server_url: str) -> list[str]:
    """Where the metadata of a server may be, in the order to look (RFC 9728)."""
    return [*([www_auth_url] if www_auth_url else []), *urls.resource_metadata(server_url)]


def build_oauth_authorization_server_metadata_discovery_urls(
    auth_server_url: str | None, server_url: str
) -> list[str]:
    """Where the metadata of an authorization server may be, in the order to look (RFC 8414, OpenID Connect)."""
    if auth_server_url:
        return urls.server_metadata(auth_server_url)
    return [urljoin(server_url, "/.well-known/oauth-authorization-server")]


def get_client_metadata_scopes(
    www_authenticate_scope: str | None,
    protected_resource_metadata: ProtectedResourceMetadata | None,
    authorization_server_metadata: OAuthMetadata | None = None,
) -> str | None:
    """The scopes to ask for: those of the challenge, else of the server, else of its authorization server."""
    if www_authenticate_scope is not None:
        return www_authenticate_scope
    for one in (protected_resource_metadata, authorization_server_metadata):
        if one is not None and one.scopes_supported is not None:
            return " ".join(one.scopes_supported)
    return None


async def handle_protected_resource_response(response: Response) -> ProtectedResourceMetadata | None:
    """The metadata that came; None where the next place is to be tried."""
    if response.status_code != 200:
        return None
    try:
        return ProtectedResourceMetadata.model_validate_json(await response.aread())
    except ValidationError:
        return None


async def handle_auth_metadata_response(response: Response) -> tuple[bool, OAuthMetadata | None]:
    """Whether to look further, and what came."""
    if response.status_code != 200:
        return 400 <= response.status_code < 500, None
    try:
        return True, OAuthMetadata.model_validate_json(await response.aread())
    except ValidationError:
        return True, None


def issuers_match(a: str, b: str) -> bool:
    """RFC 8414, 3.3: they are compared as they are written; at the root a slash makes no difference."""
    return a == b or (a.rstrip("/") == b.rstrip("/") and urlsplit(a).path in ("", "/"))


def validate_metadata_issuer(oauth_metadata: OAuthMetadata, expected_issuer: str) -> None:
    """Raises `OAuthFlowError`: the metadata is another issuer's."""
    if not issuers_match(str(oauth_metadata.issuer), expected_issuer):
        raise OAuthFlowError(
            f"Authorization server metadata issuer mismatch: {oauth_metadata.issuer} != {expected_issuer}"
        )


def credentials_match_issuer(
    client_info: OAuthClientInformationFull, issuer: str, client_metadata_url: str | None
) -> bool:
    """Whether what was registered may be shown to ``issuer``."""
    if client_metadata_url is not None and client_info.client_id == client_metadata_url:
        return True
    return client_info.issuer is None or issuers_match(client_info.issuer, issuer)


def create_oauth_metadata_request(url: str) -> Request:
    """The request for metadata."""
    from httpx import Request

    return Request("GET", url, headers=_VERSION)


def create_client_registration_request(
    auth_server_metadata: OAuthMetadata | None, client_metadata: OAuthClientMetadata, auth_base_url: str
) -> Request:
    """The request that registers a client (RFC 7591)."""
    from httpx import Request

    told = None if auth_server_metadata is None else auth_server_metadata.registration_endpoint
    body = client_metadata.model_dump(by_alias=True, mode="json", exclude_none=True)
    return Request("POST", str(told or urljoin(auth_base_url, "/register")), json=body)


async def handle_registration_response(response: Response) -> OAuthClientInformationFull:
    """Who we are to the authorization server.

    Raises:
        OAuthRegistrationError: nobody.
    """
    body = await response.aread()
    if response.status_code not in (200, 201):
        raise OAuthRegistrationError(f"Registration failed: {response.status_code} {response.text}")
    try:
        return OAuthClientInformationFull.model_validate_json(body)
    except ValidationError as error:
        raise OAuthRegistrationError(f"Invalid registration response: {error}") from error


def is_valid_client_metadata_url(url: str | None) -> bool:
    """Whether a document at this address can be a client's id."""
    try:
        return bool(url and check_document_url(url))
    except (AuthError, ValueError):
        return False


def should_use_client_metadata_url(
    oauth_metadata: OAuthMetadata | None, client_metadata_url: str | None
) -> bool:
    """Whether the authorization server reads such documents, and there is one."""
    supported = oauth_metadata is not None and oauth_metadata.client_id_metadata_document_supported
    return bool(client_metadata_url and supported)


def create_client_info_from_metadata_url(
    client_metadata_url: str, redirect_uris: list[AnyUrl] | None = None
) -> OAuthClientInformationFull:
    """The client that a document describes."""
    return OAuthClientInformationFull(
        client_id=client_metadata_url, token_endpoint_auth_method="none", redirect_uris=redirect_uris
    )


async def handle_token_response_scopes(response: Response) -> OAuthToken:
    """The token that came.

    Raises:
        OAuthTokenError: it is none.
    """
    try:
        return OAuthToken.model_validate_json(await response.aread())
    except ValidationError as error:
        raise OAuthTokenError(f"Invalid token response: {error}") from error
