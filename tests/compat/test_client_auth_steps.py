"""The steps of OAuth that programs take one by one (``mcp.client.auth.utils``): as SDK 1.30 answered."""

from typing import Any

import httpx
import pytest

from dovetail.compat.mcp.client.auth import utils
from dovetail.compat.mcp.client.auth.exceptions import (
    OAuthFlowError,
    OAuthRegistrationError,
    OAuthTokenError,
)
from dovetail.compat.mcp.shared.auth import OAuthClientMetadata, OAuthMetadata, ProtectedResourceMetadata
from tests.support.aio import run

CHALLENGE = {"WWW-Authenticate": 'Bearer error="x", scope="a b", resource_metadata="https://m.example/x"'}
RESOURCE = {"resource": "https://r.example", "authorization_servers": ["https://as.example"]}
SERVER: dict[str, Any] = {
    "issuer": "https://as.example",
    "authorization_endpoint": "https://as.example/a",
    "token_endpoint": "https://as.example/t",
    "scopes_supported": ["m"],
    "client_id_metadata_document_supported": True,
}
KNOWN = "https://as.example/.well-known/"


def test_a_challenge_says_what_is_wanted_and_where() -> None:
    for status in (401, 403):
        refused = httpx.Response(status, headers=CHALLENGE)
        assert utils.extract_scope_from_www_auth(refused) == "a b"
        assert utils.extract_field_from_www_auth(refused, "error") == "x"
        assert utils.extract_resource_metadata_from_www_auth(refused) == "https://m.example/x"
    assert utils.extract_resource_metadata_from_www_auth(httpx.Response(200, headers=CHALLENGE)) is None
    assert utils.extract_scope_from_www_auth(httpx.Response(401)) is None


def test_metadata_is_looked_for_in_order() -> None:
    below = "https://r.example/.well-known/oauth-protected-resource"
    assert utils.build_protected_resource_metadata_discovery_urls(
        "https://m.example/x", "https://r.example/mcp?q=1"
    ) == ["https://m.example/x", f"{below}/mcp", below]
    build = utils.build_oauth_authorization_server_metadata_discovery_urls
    assert build(None, "https://as.example/mcp") == [f"{KNOWN}oauth-authorization-server"]
    assert build("https://as.example/t", "") == [
        f"{KNOWN}oauth-authorization-server/t",
        f"{KNOWN}openid-configuration/t",
        "https://as.example/t/.well-known/openid-configuration",
    ]


def test_scopes_come_from_whoever_is_nearest() -> None:
    resource = ProtectedResourceMetadata.model_validate({**RESOURCE, "scopes_supported": ["p", "q"]})
    server = OAuthMetadata.model_validate(SERVER)
    assert utils.get_client_metadata_scopes("w", resource, server) == "w"
    assert utils.get_client_metadata_scopes(None, resource, server) == "p q"
    assert utils.get_client_metadata_scopes(None, None, server) == "m"
    assert utils.get_client_metadata_scopes(None, None) is None


@run
async def test_answers_are_read_and_what_is_none_is_told_apart() -> None:
    read = await utils.handle_protected_resource_response(httpx.Response(200, json=RESOURCE))
    assert read is not None
    assert str(read.authorization_servers[0]) == "https://as.example/"
    assert await utils.handle_protected_resource_response(httpx.Response(200, json={})) is None
    assert await utils.handle_protected_resource_response(httpx.Response(404)) is None
    assert await utils.handle_auth_metadata_response(httpx.Response(404)) == (True, None)
    assert await utils.handle_auth_metadata_response(httpx.Response(500)) == (False, None)
    known = OAuthMetadata.model_validate(SERVER)
    assert await utils.handle_auth_metadata_response(httpx.Response(200, json=SERVER)) == (True, known)
    token = await utils.handle_token_response_scopes(
        httpx.Response(200, json={"access_token": "t", "token_type": "bearer"})
    )
    assert token.token_type == "Bearer"
    with pytest.raises(OAuthTokenError):
        await utils.handle_token_response_scopes(httpx.Response(200, json={}))
    with pytest.raises(OAuthRegistrationError, match="400 no"):
        await utils.handle_registration_response(httpx.Response(400, text="no"))


def test_a_client_is_registered_where_the_server_says_or_at_its_root() -> None:
    client = OAuthClientMetadata.model_validate({"redirect_uris": ["http://localhost/cb"]})
    server = OAuthMetadata.model_validate({**SERVER, "registration_endpoint": "https://as.example/r"})
    asked = utils.create_client_registration_request(server, client, "https://as.example/base")
    assert (asked.method, str(asked.url)) == ("POST", "https://as.example/r")
    plain = utils.create_client_registration_request(None, client, "https://as.example/base")
    assert str(plain.url) == "https://as.example/register"
    assert utils.create_oauth_metadata_request("https://as.example/x").headers["mcp-protocol-version"]


def test_a_document_is_an_identity_where_the_server_reads_documents() -> None:
    server = OAuthMetadata.model_validate(SERVER)
    assert [
        utils.is_valid_client_metadata_url(url) for url in ("https://a/b", "http://a/b", "https://a/", None)
    ] == [True, False, False, False]
    assert utils.should_use_client_metadata_url(server, "https://a/b")
    assert not utils.should_use_client_metadata_url(None, "https://a/b")
    known = utils.create_client_info_from_metadata_url("https://a/b")
    assert (known.client_id, known.token_endpoint_auth_method) == ("https://a/b", "none")
    assert utils.credentials_match_issuer(known, "https://other.example", "https://a/b")
    bound = known.model_copy(update={"issuer": "https://as.example", "client_id": "c"})
    assert utils.credentials_match_issuer(bound, "https://as.example/", None)
    assert not utils.credentials_match_issuer(bound, "https://other.example", None)
    utils.validate_metadata_issuer(server, "https://as.example")
    with pytest.raises(OAuthFlowError, match="mismatch"):
        utils.validate_metadata_issuer(server, "https://as.example/t")
