"""Authorization servers that programs bring themselves, in both families: clients of ours log in at them."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from httpx import ASGITransport, AsyncClient
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from dovetail import Client, DovetailError
from dovetail.auth import MemoryTokens, OAuth
from dovetail.auth.core.pkce import s256
from dovetail.compat.fastmcp import FastMCP
from dovetail.compat.fastmcp.server.auth.auth import (
    AccessToken,
    ClientRegistrationOptions,
    OAuthProvider,
    RevocationOptions,
    TokenVerifier,
)
from dovetail.compat.mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from dovetail.compat.mcp.server.auth.provider import (
    AuthorizationCode,
    AuthorizeError,
    ProviderTokenVerifier,
    RefreshToken,
    construct_redirect_uri,
)
from dovetail.compat.mcp.server.auth.routes import build_resource_metadata_url
from dovetail.compat.mcp.server.auth.settings import AuthSettings
from dovetail.compat.mcp.server.fastmcp import FastMCP as SdkFastMCP
from dovetail.compat.mcp.shared.auth import OAuthToken
from dovetail.transports.http.client.pool import HttpFetch
from tests.auth.oidc import free_port
from tests.auth.test_browser import fetch
from tests.support.aio import run
from tests.support.web import served

BACK = "http://127.0.0.1:9999/callback"
VERIFIER = "v" * 43


class Memory:
    """All that a provider decides, in memory; every user agrees at once, but for the scope ``refused``."""

    def __init__(self) -> None:
        self.clients: dict[str, Any] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshes: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> Any:
        return self.clients.get(client_id)

    async def register_client(self, client_info: Any) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: Any, params: Any) -> str:
        if "refused" in (params.scopes or ()):
            raise AuthorizeError("access_denied", "not you")
        code = secrets.token_hex(8)
        self.codes[code] = AuthorizationCode(
            code=code, client_id=client.client_id, scopes=params.scopes or ["tools"], expires_at=time.time() + 60,
            code_challenge=params.code_challenge, redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
        )  # fmt: skip
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> Any:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: Any) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(client.client_id, authorization_code.scopes)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> Any:
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: Any, scopes: list[str]) -> OAuthToken:
        del self.refreshes[refresh_token.token]
        return self._issue(client.client_id, scopes)

    async def load_access_token(self, token: str) -> Any:
        return self.tokens.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.tokens.pop(token.token, None)
        self.refreshes.pop(token.token, None)

    def _issue(self, client_id: str, scopes: list[str]) -> OAuthToken:
        access, refresh = secrets.token_hex(8), secrets.token_hex(8)
        self.tokens[access] = AccessToken(token=access, client_id=client_id, scopes=scopes)
        self.refreshes[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes)
        return OAuthToken(access_token=access, expires_in=60, refresh_token=refresh, scope=" ".join(scopes))


class Provider(Memory, OAuthProvider):
    def __init__(self, **options: Any) -> None:
        Memory.__init__(self)
        OAuthProvider.__init__(self, **options)


def options() -> dict[str, Any]:
    return {
        "client_registration_options": ClientRegistrationOptions(
            enabled=True, valid_scopes=["tools", "refused"], default_scopes=["tools"]
        ),
        "revocation_options": RevocationOptions(enabled=True),
        "required_scopes": ["tools"],
    }


def fastmcp(base: str) -> Any:
    mcp = FastMCP("own", auth=Provider(base_url=base, **options()))
    mcp.tool(greet)
    return mcp


def sdk(base: str) -> Any:
    auth = AuthSettings(
        issuer_url=AnyHttpUrl(base), resource_server_url=AnyHttpUrl(f"{base}/mcp"), **options()
    )
    mcp = SdkFastMCP("own", auth_server_provider=Memory(), auth=auth)
    mcp.tool()(greet)
    return mcp


def greet() -> str:
    return "hello"


async def send(method: str, url: str, body: bytes | None = None, kind: str = "json") -> tuple[int, Any, Any]:
    form = "application/x-www-form-urlencoded"
    headers = {} if body is None else {"Content-Type": "application/json" if kind == "json" else form}
    async with HttpFetch().session() as ask:
        response = await ask(method, url, headers, body)
        text = await response.read(100_000)
        response.close()
        return response.status, dict(response.headers), json.loads(text) if text else None


def on(make: Callable[[str], Any], test: Callable[[str], Awaitable[None]]) -> None:
    async def inside() -> None:
        port = free_port()
        base = f"http://127.0.0.1:{port}"
        async with asyncio.timeout(60), served(make(base).native, port=port, path="/mcp"):
            await test(base)

    asyncio.run(inside())


both = pytest.mark.parametrize("make", [fastmcp, sdk])


@both
def test_a_client_registers_itself_logs_in_and_calls(make: Callable[[str], Any]) -> None:
    async def browse(url: str) -> None:
        status, headers, _ = await send("GET", url)
        assert status == 302
        assert (await fetch(headers["location"]))[0] == 200

    async def test(base: str) -> None:
        auth = OAuth(store=MemoryTokens(), open_browser=browse)
        async with Client(f"{base}/mcp", auth=auth) as client:
            assert (await client.call_tool("greet")).text == "hello"

    on(make, test)


async def register(base: str, **more: Any) -> tuple[int, dict[str, Any]]:
    document = {"redirect_uris": [BACK], "token_endpoint_auth_method": "none", **more}
    status, _, said = await send("POST", f"{base}/register", json.dumps(document).encode())
    return status, said


def asked(base: str, client_id: str, **more: str) -> str:
    query = {
        "response_type": "code", "client_id": client_id, "redirect_uri": BACK, "state": "s",
        "code_challenge": s256(VERIFIER), "code_challenge_method": "S256", **more,
    }  # fmt: skip
    return f"{base}/authorize?{urlencode(query)}"


async def tokens(base: str, **form: str) -> tuple[int, dict[str, Any]]:
    status, _, said = await send("POST", f"{base}/token", urlencode(form).encode(), "form")
    return status, said


async def code_of(base: str, client_id: str, **more: str) -> str:
    _, headers, _ = await send("GET", asked(base, client_id, **more))
    return headers["location"].partition("code=")[2].partition("&")[0]


@both
def test_metadata_names_what_there_is(make: Callable[[str], Any]) -> None:
    async def test(base: str) -> None:
        _, _, said = await send("GET", f"{base}/.well-known/oauth-authorization-server")
        assert said["issuer"] == base
        assert said["registration_endpoint"] == f"{base}/register"
        assert said["revocation_endpoint"] == f"{base}/revoke"
        assert said["code_challenge_methods_supported"] == ["S256"]
        assert (await send("OPTIONS", f"{base}/token"))[1]["access-control-allow-origin"] == "*"

    on(make, test)


@both
def test_what_is_asked_in_a_wrong_way_is_refused(make: Callable[[str], Any]) -> None:
    async def test(base: str) -> None:
        status, client = await register(base)
        assert status == 201
        assert "client_secret" not in client
        id = client["client_id"]
        assert (await send("GET", asked(base, "nobody")))[0] == 400
        assert (await send("GET", asked(base, id, redirect_uri="https://evil.example/cb")))[0] == 400
        for wrong in ({"code_challenge_method": "plain"}, {"response_type": "token"}, {"scope": "admin"}):
            _, headers, _ = await send("GET", asked(base, id, **wrong))
            assert headers["location"].startswith(f"{BACK}?error=")
        assert (await register(base, scope="admin"))[1]["error"] == "invalid_client_metadata"
        assert (await register(base, redirect_uris=["javascript:alert(1)"]))[1][
            "error"
        ] == "invalid_redirect_uri"
        assert (await register(base, redirect_uris=[]))[0] == 400
        _, other = await register(base, scope="tools refused")
        _, headers, _ = await send("GET", asked(base, other["client_id"], scope="refused"))
        assert "error=access_denied" in headers["location"]

    on(make, test)


@both
def test_a_code_is_good_once_for_its_client_with_its_proof(make: Callable[[str], Any]) -> None:
    async def test(base: str) -> None:
        id, other = [(await register(base))[1]["client_id"] for _ in range(2)]
        form = {
            "grant_type": "authorization_code",
            "redirect_uri": BACK,
            "code_verifier": VERIFIER,
            "client_id": id,
        }
        code = await code_of(base, id)
        assert (await tokens(base, **{**form, "client_id": other}, code=code))[1]["error"] == "invalid_grant"
        assert (await tokens(base, **{**form, "code_verifier": "w" * 43}, code=code))[1][
            "error"
        ] == "invalid_grant"
        assert (await tokens(base, **{**form, "redirect_uri": "https://a.example"}, code=code))[0] == 400
        assert (await tokens(base, **{**form, "client_id": "nobody"}, code=code))[0] == 401
        status, said = await tokens(base, **form, code=code)
        assert (status, said["token_type"]) == (200, "Bearer")
        assert (await tokens(base, **form, code=code))[1]["error"] == "invalid_grant"

    on(make, test)


class Aged:
    """Knows every token, and when it ended or ends."""

    async def verify_token(self, token: str) -> AccessToken:
        moment = int(time.time() + float(token))
        claims = {"exp": int(time.time()) + 1000}
        return AccessToken(token=token, client_id="ann", scopes=[], expires_at=moment, claims=claims)


class AgedProvider(Aged, TokenVerifier):
    pass


def aged_sdk() -> Any:
    auth = AuthSettings(issuer_url=AnyHttpUrl("https://id.example"), resource_server_url=None)
    return SdkFastMCP("aged", token_verifier=Aged(), auth=auth)


@run
@pytest.mark.parametrize("make", [lambda: FastMCP("aged", auth=AgedProvider()), aged_sdk])
async def test_a_token_that_its_verifier_calls_old_is_not_good(make: Callable[[], Any]) -> None:
    made = make()
    made.add_tool(greet) if isinstance(made, SdkFastMCP) else made.tool(greet)
    async with served(made.native, path="/mcp") as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        async with Client(url, auth="60") as client:
            assert (await client.call_tool("greet")).text == "hello"
        with pytest.raises(DovetailError) as caught:
            async with Client(url, auth="-60") as client:
                await client.call_tool("greet")
        assert "token" in caught.value.message


@both
def test_a_challenge_that_no_verifier_can_meet_is_met_by_none(make: Callable[[str], Any]) -> None:
    async def test(base: str) -> None:
        id = (await register(base))[1]["client_id"]
        form = {"grant_type": "authorization_code", "redirect_uri": BACK, "client_id": id}
        for challenge in ("é" * 43, "short", VERIFIER):
            code = await code_of(base, id, code_challenge=challenge)
            for verifier in (VERIFIER, "short", "é" * 43):
                status, said = await tokens(base, **form, code=code, code_verifier=verifier)
                assert (status, said["error"]) == (400, "invalid_grant")

    on(make, test)


@both
def test_tokens_are_renewed_and_revoked(make: Callable[[str], Any]) -> None:
    async def test(base: str) -> None:
        id = (await register(base))[1]["client_id"]
        form = {"code_verifier": VERIFIER, "redirect_uri": BACK, "code": await code_of(base, id)}
        _, first = await tokens(base, grant_type="authorization_code", client_id=id, **form)
        renew = {"grant_type": "refresh_token", "client_id": id, "refresh_token": first["refresh_token"]}
        assert (await tokens(base, **renew, scope="tools admin"))[1]["error"] == "invalid_scope"
        _, second = await tokens(base, **renew)
        assert second["access_token"] != first["access_token"]
        assert (await tokens(base, **renew))[1]["error"] == "invalid_grant"
        body = urlencode({"client_id": id, "token": second["refresh_token"]}).encode()
        assert (await send("POST", f"{base}/revoke", body, "form"))[0] == 200
        assert (await tokens(base, **{**renew, "refresh_token": second["refresh_token"]}))[0] == 400

    on(make, test)


@both
def test_a_client_with_a_secret_has_to_know_it(make: Callable[[str], Any]) -> None:
    async def test(base: str) -> None:
        _, client = await register(base, token_endpoint_auth_method="client_secret_post")
        id = client["client_id"]
        form = {
            "grant_type": "authorization_code",
            "redirect_uri": BACK,
            "code_verifier": VERIFIER,
            "client_id": id,
        }
        code = await code_of(base, id)
        assert (await tokens(base, **form, code=code))[1]["error"] == "invalid_client"
        assert (await tokens(base, **form, code=code, client_secret=client["client_secret"]))[0] == 200

    on(make, test)


@run
async def test_applications_of_starlette_know_who_sends_a_request() -> None:
    async def page(request: Request) -> Response:
        return PlainTextResponse(request.user.display_name)

    memory = Memory()
    memory.tokens["good"] = AccessToken(token="good", client_id="ann", scopes=["tools"])
    memory.tokens["poor"] = AccessToken(token="poor", client_id="bob", scopes=[])
    memory.tokens["old"] = AccessToken(token="old", client_id="ann", scopes=["tools"], expires_at=1)
    where = build_resource_metadata_url(AnyHttpUrl("https://a.example/mcp"))
    guarded = RequireAuthMiddleware(Starlette(routes=[Route("/", page)]), ["tools"], where)
    app = AuthenticationMiddleware(guarded, backend=BearerAuthBackend(ProviderTokenVerifier(memory)))  # type: ignore[arg-type]
    async with AsyncClient(transport=ASGITransport(app), base_url="http://a.example") as client:
        said = {
            name: await client.get("/", headers={"authorization": f"Bearer {name}"})
            for name in (*memory.tokens, "x")
        }
    assert {name: one.status_code for name, one in said.items()} == {
        "good": 200,
        "poor": 403,
        "old": 401,
        "x": 401,
    }
    assert said["good"].text == "ann"
    assert f'resource_metadata="{where}"' in said["x"].headers["www-authenticate"]
