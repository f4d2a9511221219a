"""Verifiers and providers of FastMCP: what they accept, where their words come from, and what they tell clients."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.authentication import UnauthenticatedUser

from dovetail.compat.fastmcp.server.auth import (
    AccessToken,
    OAuthProxy,
    RemoteAuthProvider,
    StaticTokenVerifier,
)
from dovetail.compat.fastmcp.server.auth.providers.debug import DebugTokenVerifier
from dovetail.compat.fastmcp.server.auth.providers.descope import DescopeProvider
from dovetail.compat.fastmcp.server.auth.providers.github import GitHubProvider
from dovetail.compat.fastmcp.server.auth.providers.introspection import IntrospectionTokenVerifier
from dovetail.compat.fastmcp.server.auth.providers.jwt import JWTVerifier, RSAKeyPair
from dovetail.compat.fastmcp.server.auth.providers.scalekit import ScalekitProvider
from dovetail.compat.fastmcp.server.auth.providers.supabase import SupabaseProvider
from dovetail.compat.fastmcp.server.dependencies import get_access_token
from dovetail.compat.mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from dovetail.compat.mcp.server.auth.middleware.auth_context import get_access_token as sdk_token
from dovetail.compat.mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from tests.support.aio import run

KEYS = RSAKeyPair.generate()


@run
async def test_a_token_needs_what_its_verifier_was_told_and_nothing_else() -> None:
    anybody = JWTVerifier(public_key=KEYS.public_key)
    token = KEYS.create_token(subject="ann", scopes=["read"], additional_claims={"azp": "app"})
    found = await anybody.verify_token(token)
    assert (found.client_id, found.scopes, found.claims["sub"]) == ("app", ["read"], "ann")
    strict = JWTVerifier(
        public_key=KEYS.public_key, issuer=["https://a", "https://b"], audience="me", required_scopes=["read"]
    )
    good: dict[str, Any] = {"issuer": "https://b", "audience": ["you", "me"], "scopes": ["read", "write"]}
    assert await strict.verify_token(KEYS.create_token(**good)) is not None
    for wrong in (
        {"issuer": "https://c"}, {"audience": None}, {"audience": "you"}, {"scopes": ["write"]},
        {"expires_in_seconds": -1}, {"additional_claims": {"exp": "soon"}},
    ):  # fmt: skip
        assert await strict.verify_token(KEYS.create_token(**good | wrong)) is None, wrong
    assert await strict.verify_token(RSAKeyPair.generate().create_token(**good)) is None
    head, claims, _ = KEYS.create_token(**good).split(".")
    for broken in ("", "x", "a.b.c", f"{head}.{claims}.", f"eyJhbGciOiJub25lIn0.{claims}."):
        assert await strict.verify_token(broken) is None


def test_a_verifier_wants_one_key_and_an_algorithm_it_knows() -> None:
    assert JWTVerifier(public_key="read later").public_key == "read later"
    with pytest.raises(ValueError, match="Unsupported algorithm: none"):
        JWTVerifier(public_key="x", algorithm="none")
    with pytest.raises(ValueError, match="Either public_key or jwks_uri"):
        JWTVerifier()


@run
async def test_a_check_that_fails_lets_nobody_in() -> None:
    def check(token: str) -> bool:
        raise ValueError("no")

    assert await DebugTokenVerifier(validate=check).verify_token("t") is None
    assert (await DebugTokenVerifier().verify_token("t")).claims == {"token": "t"}


def test_what_a_program_leaves_out_stands_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    place = "FASTMCP_SERVER_AUTH_SUPABASE_"
    for word, text in (("PROJECT_URL", "https://p.example/"), ("BASE_URL", "https://me.example"),
                       ("ALGORITHM", "RS256"), ("REQUIRED_SCOPES", "a, b")):  # fmt: skip
        monkeypatch.setenv(place + word, text)
    found = SupabaseProvider()
    assert str(found.base_url) == "https://me.example/"
    assert found.required_scopes == ["a", "b"]
    assert found.token_verifier.algorithm == "RS256"
    assert SupabaseProvider(required_scopes=["c"]).required_scopes == ["c"]
    monkeypatch.setenv(place + "REQUIRED_SCOPES", '["x y"]')
    assert SupabaseProvider().required_scopes == ["x y"]
    with pytest.raises(
        ValueError, match=r"client_secret is required .* FASTMCP_SERVER_AUTH_GITHUB_CLIENT_SECRET"
    ):
        GitHubProvider(client_id="x")


def test_providers_know_where_their_tokens_come_from() -> None:
    config = "https://api.descope.com/v1/apps/agentic/P2/M1/.well-known/openid-configuration"
    descope = DescopeProvider(config_url=config, base_url="https://me.example")
    assert descope.token_verifier.issuer == "https://api.descope.com/v1/apps/agentic/P2/M1"
    assert descope.token_verifier.jwks_uri == "https://api.descope.com/P2/.well-known/jwks.json"
    assert descope.token_verifier.audience == descope.project_id == "P2"
    with pytest.raises(ValueError, match="agentic"):
        DescopeProvider(config_url="https://api.descope.com/x", base_url="https://me.example")
    scalekit = ScalekitProvider(
        environment_url="https://e.example/", resource_id="r", base_url="https://me.example"
    )
    assert scalekit.issuers() == ["https://e.example/resources/r"]
    assert [one.path for one in scalekit.get_well_known_routes("/mcp")] == [
        "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server",
    ]  # fmt: skip


def test_routes_of_a_mounted_application_name_its_whole_address() -> None:
    verifier = StaticTokenVerifier({"t": {"client_id": "x", "scopes": []}})
    provider = RemoteAuthProvider(verifier, ["https://auth.example"], "https://me.example/api")
    (route,) = provider.get_well_known_routes("/mcp")
    assert route.path == "/.well-known/oauth-protected-resource/api/mcp"


@run
async def test_what_a_login_proxy_says_of_itself_can_be_shown_at_the_root_of_its_host() -> None:
    proxy = OAuthProxy(
        upstream_authorization_endpoint="https://up.example/authorize",
        upstream_token_endpoint="https://up.example/token", upstream_client_id="me",
        upstream_client_secret="a secret of some length",
        token_verifier=StaticTokenVerifier({}), base_url="https://me.example/api",
    )  # fmt: skip
    outer = Starlette(routes=proxy.get_well_known_routes("/mcp"))
    said: dict[str, Any] = {}
    for path in ("oauth-authorization-server/api", "oauth-protected-resource/api/mcp"):
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(outer), base_url="https://me.example"
        ) as client:
            said |= (await client.get(f"/.well-known/{path}")).json()
    assert said["authorization_endpoint"] == "https://me.example/api/authorize"
    assert said["resource"] == "https://me.example/api/mcp"
    assert said["authorization_servers"] == [said["issuer"]] == ["https://me.example/api"]


@run
async def test_an_endpoint_is_asked_about_a_token() -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        form = await reader.readexactly(size)
        asked.append(head + form)
        said = {"active": b"token=good" in form, "client_id": "app", "scope": "read write", "exp": 4e9}
        body = json.dumps(said).encode()
        kind = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
        writer.write(kind + b"content-length: %d\r\n\r\n" % len(body) + body)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        words: dict[str, Any] = {
            "introspection_url": f"http://127.0.0.1:{port}/introspect", "client_id": "me", "client_secret": "s",
        }  # fmt: skip
        verifier = IntrospectionTokenVerifier(**words, required_scopes=["read"])
        found = await verifier.verify_token("good")
        assert (found.client_id, found.scopes, found.expires_at) == ("app", ["read", "write"], 4_000_000_000)
        assert b"basic bwu6cw==" in asked[0].lower()
        assert await verifier.verify_token("bad") is None
        assert (
            await IntrospectionTokenVerifier(**words, required_scopes=["admin"]).verify_token("good") is None
        )
    gone = IntrospectionTokenVerifier(**words | {"introspection_url": f"http://127.0.0.1:{port}/"})
    assert await gone.verify_token("good") is None


@run
async def test_a_token_is_that_of_whom_the_program_itself_has_let_in() -> None:
    found: list[Any] = []

    async def app(*_: Any) -> None:
        found.extend((get_access_token(), sdk_token()))

    token = AccessToken(token="t", client_id="app", scopes=[])
    around = AuthContextMiddleware(app)
    await around({"type": "http", "user": AuthenticatedUser(token)}, None, None)
    await around({"type": "http", "user": UnauthenticatedUser()}, None, None)
    assert found == [token, token, None, None]
    assert get_access_token() is None
