"""Tokens, clients and progress of SDK 1.x: the names that servers use beside their tools."""

from typing import Any

import pytest
from pydantic import AnyUrl, ValidationError

from dovetail import Client, Principal
from dovetail.compat.mcp import types
from dovetail.compat.mcp.server.auth.middleware.auth_context import get_access_token
from dovetail.compat.mcp.server.auth.provider import construct_redirect_uri
from dovetail.compat.mcp.server.lowlevel import Server
from dovetail.compat.mcp.shared.auth import (
    InvalidRedirectUriError,
    InvalidScopeError,
    OAuthClientInformationFull,
    OAuthToken,
)
from dovetail.compat.mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from dovetail.compat.mcp.shared.progress import progress
from tests.support.aio import run


def serve() -> Server[Any, Any]:
    server = Server("auth")

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return [types.Tool(name=name, inputSchema={"type": "object"}) for name in ("who", "steps")]

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        if name == "steps":
            with progress(server.request_context, total=2) as counter:
                await counter.progress(1, "one")
                await counter.progress(1, "two")
        token = get_access_token()
        words = "nobody" if token is None else f"{token.client_id} {token.scopes}"
        return [types.TextContent(type="text", text=words)]

    return server


@run
async def test_a_handler_learns_who_calls() -> None:
    message = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who","arguments":{},"_meta":'
        b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        b'"io.modelcontextprotocol/clientCapabilities":{}}}}'
    )
    native = serve().native
    reply = await native.handle(message, {"principal": Principal("ann", scopes=frozenset({"read"}))})
    assert b"ann ['read']" in (reply or b"")
    assert b"nobody" in (await native.handle(message) or b"")


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_progress_adds_up(revision: str) -> None:
    heard: list[Any] = []
    async with Client(serve().native, revision=revision) as client:
        await client.call_tool("steps", on_progress=lambda *told: heard.append(told))
    assert heard == [(1, 2, "one"), (2, 2, "two")]


def test_a_redirect_keeps_what_the_address_has() -> None:
    address = construct_redirect_uri("https://a.example/cb?x=1", code="c", state=None)
    assert address == "https://a.example/cb?x=1&code=c"


def test_a_client_may_use_what_it_registered_and_nothing_else() -> None:
    client = OAuthClientInformationFull(
        client_id="c", redirect_uris=[AnyUrl("https://a.example/cb")], scope="read write"
    )
    assert client.validate_scope("read") == ["read"]
    assert client.validate_redirect_uri(None) == AnyUrl("https://a.example/cb")
    with pytest.raises(InvalidScopeError):
        client.validate_scope("admin")
    with pytest.raises(InvalidRedirectUriError):
        client.validate_redirect_uri(AnyUrl("https://evil.example/cb"))


def test_a_token_type_has_no_case() -> None:
    assert OAuthToken.model_validate({"access_token": "t", "token_type": "bearer"}).token_type == "Bearer"
    with pytest.raises(ValidationError):
        OAuthToken.model_validate({"access_token": "t", "token_type": "mac"})


def test_a_token_is_good_for_what_lies_below_its_resource() -> None:
    assert resource_url_from_server_url("HTTPS://A.example/mcp#x") == "https://a.example/mcp"
    assert check_resource_allowed("https://a.example/mcp/x", "https://a.example/mcp")
    assert not check_resource_allowed("https://a.example/mcpx", "https://a.example/mcp")
    assert not check_resource_allowed("https://b.example/mcp", "https://a.example/mcp")
