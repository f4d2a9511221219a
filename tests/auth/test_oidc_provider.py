"""Our client with a certified authorization server: every way to a token, and what becomes of it."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from joserfc.jwk import ECKey

from dovetail import Client
from dovetail.auth import ClientCredentials, DeviceCode, DPoP, MemoryTokens, OAuth, TokenStore
from dovetail.transports.http.client.connection_pool import HttpFetch
from tests.support.waiting import HANG

from .oidc import Browser, Oidc, oidc

pytestmark = pytest.mark.peer


def run(test: Callable[[Oidc], Any], **environment: str) -> None:
    async def inside() -> None:
        async with asyncio.timeout(60), oidc(**environment) as provider:
            await test(provider)

    asyncio.run(inside())


async def come_back(url: str) -> None:
    """What a real browser does at the end: it fetches the page that our port has for it."""
    back = await Browser().log_in(url)
    async with HttpFetch().session() as send:
        response = await send("GET", back, {})
        assert response.status == 200
        response.close()


def client(provider: Oidc, auth: Any) -> Client:
    return Client(provider.url, revision="modern", auth=auth)


def test_code_with_pkce_by_a_client_that_registers_itself(tmp_path: Path) -> None:
    async def test(provider: Oidc) -> None:
        auth = OAuth(store=TokenStore(tmp_path), open_browser=come_back)
        async with client(provider, auth) as connected:
            assert (await connected.call_tool("echo", {"a": 1})).text == '{"a": 1}'
        last = provider.seen[-1]
        assert (last["active"], last["aud"], last["sub"]) == (True, provider.url, "somebody")
        assert "tools" in last["scope"].split()
        assert last["token_type"] == "Bearer"

    run(test)


def test_a_token_that_has_ended_is_refreshed_and_the_refresh_token_rotates() -> None:
    async def test(provider: Oidc) -> None:
        visits: list[str] = []

        async def visit(url: str) -> None:
            visits.append(url)
            await come_back(url)

        store = MemoryTokens()
        tokens: list[tuple[str, str]] = []
        async with client(provider, OAuth(store=store, open_browser=visit)) as connected:
            for _ in range(3):
                if tokens:
                    await ended(provider, tokens[-1][0])
                await connected.list_tools(fresh=True)
                token = provider.fake.requests[-1].headers["authorization"].partition(" ")[2]
                tokens.append((token, await refresh_token(store, provider)))
        assert len(visits) == 1
        assert len({access for access, _ in tokens}) == 3
        assert len({refresh for _, refresh in tokens}) == 3

    run(test, LIFETIME="2")


async def refresh_token(store: MemoryTokens, provider: Oidc) -> str:
    binding = json.loads(await store.get(("server", provider.url)) or b"")
    key = ("token", binding["issuer"], binding["client_id"], binding["resource"])
    return json.loads(await store.get(key) or b"")["refresh_token"]


async def ended(provider: Oidc, token: str) -> None:
    async with asyncio.timeout(HANG):
        while (await provider.introspect(token))["active"]:
            pass


def test_a_token_is_worth_nothing_after_log_out() -> None:
    async def test(provider: Oidc) -> None:
        auth = OAuth(store=MemoryTokens(), open_browser=come_back)
        async with client(provider, auth) as connected:
            await connected.list_tools()
        token = provider.fake.requests[-1].headers["authorization"].partition(" ")[2]
        assert (await provider.introspect(token))["active"] is True
        async with HttpFetch().session() as send:
            assert await auth.log_out(provider.url, send) is True
            assert await auth.held(provider.url, send) is None
        assert (await provider.introspect(token))["active"] is False

    run(test)


def test_more_scopes_are_asked_for_when_they_are_needed() -> None:
    async def test(provider: Oidc) -> None:
        provider.needed["tools/call"] = "more"
        auth = OAuth(store=MemoryTokens(), open_browser=come_back)
        async with client(provider, auth) as connected:
            await connected.call_tool("echo", {})
        assert {"tools", "more"} <= set(provider.seen[-1]["scope"].split())

    run(test)


def test_client_credentials_with_a_secret() -> None:
    async def test(provider: Oidc) -> None:
        async with client(provider, ClientCredentials("machine", "machine-secret")) as connected:
            await connected.list_tools()
        assert provider.seen[-1]["client_id"] == "machine"

    run(test)


def test_client_credentials_with_a_key() -> None:
    key = ECKey.generate_key("P-256")
    public = json.dumps({**key.as_dict(private=False), "alg": "ES256", "use": "sig"})

    async def test(provider: Oidc) -> None:
        auth = ClientCredentials("keyed", private_key=key.as_pem(private=True))
        async with client(provider, auth) as connected:
            await connected.list_tools()
        assert provider.seen[-1]["client_id"] == "keyed"

    run(test, KEY=public)


@pytest.mark.parametrize("client_id", ["screenless", None])
def test_device_code(client_id: str | None) -> None:
    async def test(provider: Oidc) -> None:
        typed: list[asyncio.Task[str]] = []

        def show(text: str) -> None:
            found = re.search(r"Visit (\S+) and enter the code (\S+)", text)
            assert found is not None
            typed.append(asyncio.create_task(Browser().type_code(found[1], found[2])))

        auth = DeviceCode(client_id, show=show, store=MemoryTokens())
        async with client(provider, auth) as connected:
            await connected.list_tools()
        assert (await typed[0]) != ""
        assert provider.seen[-1]["sub"] == "somebody"

    run(test)


@pytest.mark.parametrize("nonce", ["0", "1"])
def test_tokens_bound_to_a_key(nonce: str) -> None:
    async def test(provider: Oidc) -> None:
        auth = DPoP(OAuth(store=MemoryTokens(), open_browser=come_back))
        async with client(provider, auth) as connected:
            await connected.list_tools()
            await connected.list_tools(fresh=True)
        first, second = provider.seen[-2:]
        assert (first["scheme"], first["token_type"]) == ("DPoP", "DPoP")
        assert first["cnf"]["jkt"]
        assert first["proof"] != second["proof"]  # each request has a separate proof

    run(test, NONCE=nonce)


def test_the_browser_is_sent_to_the_provider_alone() -> None:
    async def test(provider: Oidc) -> None:
        seen: list[str] = []

        async def visit(url: str) -> None:
            seen.append(url)
            await come_back(url)

        async with client(provider, OAuth(store=MemoryTokens(), open_browser=visit)) as connected:
            await connected.list_tools()
        assert [f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" for url in seen] == [provider.issuer]

    run(test)


def test_log_out_with_dpop_revokes_and_forgets_the_key() -> None:
    async def test(provider: Oidc) -> None:
        store = MemoryTokens()
        auth = DPoP(OAuth(store=store, open_browser=come_back))
        async with client(provider, auth) as connected:
            await connected.list_tools()
        token = provider.fake.requests[-1].headers["authorization"].partition(" ")[2]
        key = ("dpop", provider.url, "ES256")
        assert await store.get(key) is not None
        async with HttpFetch().session() as send:
            assert await auth.log_out(provider.url, send) is True
        assert (await provider.introspect(token))["active"] is False
        assert await store.get(key) is None

    run(test)
