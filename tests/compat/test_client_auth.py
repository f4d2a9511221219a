"""Clients of SDK 1.x and FastMCP that log in: at servers of ours, with the storage and the handlers of the program."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from dovetail import Client
from dovetail.auth.core.pkce import s256
from dovetail.compat.fastmcp import Client as FastClient
from dovetail.compat.fastmcp.client.auth import OAuth
from dovetail.compat.mcp import ClientSession
from dovetail.compat.mcp.client.auth import (
    OAuthClientProvider,
    OAuthFlowError,
    OAuthTokenError,
    PKCEParameters,
)
from dovetail.compat.mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
    static_assertion_provider,
)
from dovetail.compat.mcp.client.streamable_http import streamable_http_client, streamablehttp_client
from dovetail.compat.mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from tests.auth.provider import Provider
from tests.auth.test_login import run as against
from tests.compat.test_own_authorization import fastmcp, on, sdk, send

BACK = "http://localhost:3030/callback"


class Storage:
    """A program's own storage."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class User:
    """Visits a page, agrees, and comes back with what stands in the address."""

    def __init__(self) -> None:
        self.visits: list[str] = []
        self.found: dict[str, str] = {}

    async def visit(self, url: str) -> None:
        self.visits.append(url)
        status, headers, _ = await send("GET", url)
        assert status == 302
        assert headers["location"].startswith(BACK)
        self.found = dict(parse_qsl(urlsplit(headers["location"]).query))

    async def come_back(self) -> tuple[str, str | None]:
        return self.found["code"], self.found.get("state")


def about(**more: Any) -> OAuthClientMetadata:
    return OAuthClientMetadata.model_validate(
        {"redirect_uris": [BACK], "client_name": "a program", "software_id": "program-7", **more}
    )


def provider(base: str, storage: Storage, user: User, **more: Any) -> OAuthClientProvider:
    return OAuthClientProvider(f"{base}/mcp", about(**more), storage, user.visit, user.come_back)


async def greeted(way: Any) -> str:
    async with way as (read, write, _), ClientSession(read, write) as session:
        await session.initialize()
        return (await session.call_tool("greet", {})).content[0].text


def test_a_program_registers_logs_in_and_keeps_both_in_its_own_storage() -> None:
    async def test(base: str) -> None:
        storage, user = Storage(), User()
        auth = provider(base, storage, user)
        assert await greeted(streamablehttp_client(f"{base}/mcp", auth=auth)) == "hello"
        assert len(user.visits) == 1
        assert storage.tokens is not None
        assert storage.tokens.refresh_token
        assert storage.client is not None
        assert (storage.client.issuer, storage.client.client_name) == (base, "a program")
        assert auth.context.current_tokens == storage.tokens
        assert auth.context.client_info == storage.client
        # Another process of the program finds them there, and asks nobody.
        again = provider(base, storage, user)
        assert await greeted(streamablehttp_client(f"{base}/mcp", auth=again)) == "hello"
        assert len(user.visits) == 1

    on(sdk, test)


def test_tokens_that_are_over_are_renewed_without_the_user_and_stored() -> None:
    async def test(base: str) -> None:
        storage, user = Storage(), User()
        await greeted(streamablehttp_client(f"{base}/mcp", auth=provider(base, storage, user)))
        assert storage.tokens is not None
        old = storage.tokens
        storage.tokens = old.model_copy(update={"access_token": "nobody-knows-it"})
        assert (
            await greeted(streamablehttp_client(f"{base}/mcp", auth=provider(base, storage, user))) == "hello"
        )
        assert len(user.visits) == 1
        assert storage.tokens.access_token not in (old.access_token, "nobody-knows-it")
        # Of tokens whose issuer was never written down nothing is shown to anybody: the user logs in again.
        storage.tokens = old
        assert storage.client is not None
        storage.client = storage.client.model_copy(update={"issuer": None})
        assert (
            await greeted(streamablehttp_client(f"{base}/mcp", auth=provider(base, storage, user))) == "hello"
        )
        storage.tokens = old.model_copy(update={"access_token": "nobody-knows-it"})
        storage.client = storage.client.model_copy(update={"issuer": None})
        assert (
            await greeted(streamablehttp_client(f"{base}/mcp", auth=provider(base, storage, user))) == "hello"
        )
        assert len(user.visits) == 2

    on(sdk, test)


def test_httpx_takes_it_and_sends_what_the_flow_wants_sent() -> None:
    async def test(base: str) -> None:
        storage, user, seen = Storage(), User(), list[str]()

        async def note(request: httpx.Request) -> None:
            seen.append(request.url.path)

        auth = provider(base, storage, user)
        async with httpx.AsyncClient(auth=auth, event_hooks={"request": [note]}) as http:
            assert await greeted(streamable_http_client(f"{base}/mcp", http_client=http)) == "hello"
        assert {"/register", "/token", "/mcp"} <= set(seen)
        assert len(user.visits) == 1
        async with httpx.AsyncClient(auth=provider(base, storage, user)) as http:
            answer = await http.post(f"{base}/mcp", json={})
            assert answer.status_code == 400  # let in, and told that this is no message
            assert storage.tokens is not None
            assert answer.request.headers["authorization"] == f"Bearer {storage.tokens.access_token}"

    on(fastmcp, test)


def test_who_cannot_log_in_is_told_in_the_classes_of_the_sdk() -> None:
    async def test(base: str) -> None:
        nobody = OAuthClientProvider(f"{base}/mcp", about(), Storage())
        with pytest.raises(OAuthFlowError, match="No redirect handler"):
            await greeted(streamablehttp_client(f"{base}/mcp", auth=nobody))

        class Forgetful(User):
            async def come_back(self) -> tuple[str, str | None]:
                return self.found["code"], "another-state"

        with pytest.raises(OAuthFlowError, match="state"):
            await greeted(streamablehttp_client(f"{base}/mcp", auth=provider(base, Storage(), Forgetful())))

        class Wrong(User):
            async def come_back(self) -> tuple[str, str | None]:
                return "made-up", self.found["state"]

        with pytest.raises(OAuthTokenError):
            async with httpx.AsyncClient(auth=provider(base, Storage(), Wrong())) as http:
                await http.post(f"{base}/mcp", json={})

    on(sdk, test)


def test_a_fastmcp_client_opens_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The user's browser is a program that follows redirects, as browsers do.
    program = tmp_path / "browser.py"
    program.write_text("import sys, urllib.request\nurllib.request.urlopen(sys.argv[1], timeout=30).read()\n")
    browser = webbrowser.GenericBrowser([sys.executable, str(program), "%s"])
    monkeypatch.setattr(webbrowser, "open", browser.open)

    async def test(base: str) -> None:
        auth = OAuth(f"{base}/mcp", scopes=["tools"], additional_client_metadata={"software_id": "program-8"})
        async with FastClient(f"{base}/mcp", auth=auth) as client:
            assert (await client.call_tool("greet")).data == "hello"

    on(fastmcp, test)
    with pytest.raises(ValueError, match="token_storage="):
        OAuth("https://a.example/mcp", token_storage=object())


def test_machines_are_recognised_by_a_secret_or_by_what_they_sign() -> None:
    key = ECKey.generate_key("P-256")
    signed = SignedJWTParameters(
        issuer="m", subject="m", signing_key=key.as_pem(private=True).decode(), signing_algorithm="ES256",
        additional_claims={"team": "7"},
    )  # fmt: skip

    async def log_in(provider: Provider, auth: Any) -> dict[str, str]:
        async with Client(provider.url, revision="modern", auth=auth) as client:
            await client.list_tools()
        return provider.forms()[-1]

    async def test(provider: Provider) -> None:
        storage = Storage()
        secret = ClientCredentialsOAuthProvider(provider.url, storage, "m", "s", scopes="base")
        form = await log_in(provider, secret)
        assert (form["grant_type"], form["scope"]) == ("client_credentials", "base")
        assert provider.asked("/token")[-1].headers["authorization"].startswith("Basic ")
        assert storage.tokens is not None
        posted = ClientCredentialsOAuthProvider(provider.url, Storage(), "m", "s", "client_secret_post")
        assert (await log_in(provider, posted))["client_secret"] == "s"
        known = PrivateKeyJWTOAuthProvider(
            provider.url, Storage(), "m", signed.create_assertion_provider(), issuer=provider.issuer
        )
        form = await log_in(provider, known)
        claims = jwt.decode(form["client_assertion"], key, algorithms=["ES256"]).claims
        assert (claims["sub"], claims["aud"], claims["team"]) == ("m", provider.issuer, "7")
        static = PrivateKeyJWTOAuthProvider(provider.url, Storage(), "m", static_assertion_provider("made"))
        assert (await log_in(provider, static))["client_assertion"] == "made"
        elsewhere = ClientCredentialsOAuthProvider(
            provider.url, Storage(), "m", "s", issuer="https://other.example"
        )
        with pytest.raises(OAuthFlowError, match=r"other\.example"):
            await log_in(provider, elsewhere)

    against(test)


def test_a_proof_key_is_a_pair() -> None:
    pair = PKCEParameters.generate()
    assert pair.code_challenge == s256(pair.code_verifier)
    assert 43 <= len(pair.code_verifier) <= 128
    with pytest.raises(ValueError, match="client_metadata_url"):
        OAuthClientProvider(
            "https://a.example/mcp", about(), Storage(), client_metadata_url="http://a.example/x"
        )
