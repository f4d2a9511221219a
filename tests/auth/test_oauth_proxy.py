"""The OAuth proxy with a certified provider and the Dovetail client: clients never get the provider's tokens."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Principal
from dovetail.auth import MemoryTokens, OAuth, OAuthProxy, OidcProxy, StaticTokens
from dovetail.auth.proxy.presets import PRESETS
from dovetail.errors import DovetailError
from dovetail.transports.http.client.connection_pool import HttpFetch
from tests.support.aio import run as aio
from tests.support.certificates import Authority

from .documents import documents
from .oidc import free_port
from .proxied import SECRET, Proxied, proxied, query_of, send
from .visitor import BACK, visitor


def run(test: Callable[[Proxied], Any], **options: Any) -> None:
    async def inside() -> None:
        async with asyncio.timeout(60), proxied(**options) as site:
            await test(site)

    asyncio.run(inside())


@pytest.mark.peer
@pytest.mark.parametrize("plain", [False, True], ids=["oidc", "oauth"])
def test_a_client_logs_in_and_the_principal_is_the_providers_user(plain: bool) -> None:
    async def test(site: Proxied) -> None:
        visits: list[str] = []
        store = MemoryTokens()
        async with Client(site.url, auth=OAuth(store=store, open_browser=site.browse(visits))) as client:
            assert (await client.call_tool("who")).text == "somebody"
            await client.call_tool("theirs")
        assert len(visits) == 1
        binding = json.loads(await store.get(("server", site.url)) or b"")
        held = json.loads(
            await store.get(("token", binding["issuer"], binding["client_id"], site.url)) or b""
        )
        assert binding["issuer"] == site.base
        # The provider's token is the tool's to use; what the client holds is worth nothing at the provider.
        assert (await site.provider.introspect(site.given[0]))["active"] is True
        assert site.given[0] not in json.dumps([binding, held])
        for token in (held["access_token"], held["refresh_token"]):
            assert (await site.provider.introspect(token))["active"] is False

    run(test, plain=plain)


@pytest.mark.peer
def test_an_expired_token_is_refreshed_without_the_user() -> None:
    now = [time.time()]

    async def test(site: Proxied) -> None:
        visits: list[str] = []
        async with Client(
            site.url, auth=OAuth(store=MemoryTokens(), open_browser=site.browse(visits))
        ) as client:
            await client.call_tool("who")
            now[0] += 4000
            assert (await client.call_tool("who")).text == "somebody"
            now[0] += 4000
            await client.call_tool("theirs")
        assert len(visits) == 1
        assert (await site.provider.introspect(site.given[0]))["active"] is True

    run(test, clock=lambda: now[0])


@pytest.mark.peer
def test_the_providers_token_is_renewed_once_for_all_who_want_it() -> None:
    now = [time.time()]

    async def test(site: Proxied) -> None:
        async with Client(site.url, auth=OAuth(store=MemoryTokens(), open_browser=site.browse())) as client:
            await client.call_tool("theirs")
            now[0] += 3595  # what the provider gave is about to end, what we gave is not quite
            await asyncio.gather(*(client.call_tool("theirs") for _ in range(5)))
        first, *later = site.given
        assert len(set(later)) == 1
        assert later[0] != first
        assert (await site.provider.introspect(later[0]))["active"] is True

    run(test, clock=lambda: now[0])


@pytest.mark.peer
def test_what_the_provider_takes_back_ends_with_us_too() -> None:
    now = [time.time()]

    async def test(site: Proxied) -> None:
        visits: list[str] = []

        async def visit(url: str) -> None:
            now[0] = time.time()  # the provider knows no other clock
            await site.browse(visits)(url)

        async with Client(site.url, auth=OAuth(store=MemoryTokens(), open_browser=visit)) as client:
            await client.call_tool("theirs")
            form = {"token": site.given[0], "client_id": "proxy", "client_secret": SECRET}
            status, _, _ = await send("POST", f"{site.provider.issuer}/token/revocation", {}, form)
            assert status == 200
            now[0] += 4000
            await client.call_tool("who")
        assert len(visits) == 2  # no refresh any more: the user logs in again

    run(test, clock=lambda: now[0])


@pytest.mark.peer
def test_log_out_revokes_the_proxys_and_the_providers_tokens() -> None:
    async def test(site: Proxied) -> None:
        auth = OAuth(store=MemoryTokens(), open_browser=site.browse())
        async with Client(site.url, auth=auth) as client:
            await client.call_tool("theirs")
        async with HttpFetch().session() as ask:
            assert await auth.log_out(site.url, ask) is True
        assert (await site.provider.introspect(site.given[0]))["active"] is False

    run(test)


@pytest.mark.peer
def test_a_further_scope_is_asked_for_and_agreed_to() -> None:
    async def test(site: Proxied) -> None:
        auth = OAuth(store=MemoryTokens(), open_browser=site.browse(visits := []))
        async with Client(site.url, auth=auth) as client:
            assert (await client.call_tool("who")).text == "somebody"
            assert (await client.call_tool("further")).text == "further"
        assert [query_of(page)["scope"].split() for page in visits] == [["tools"], ["tools", "more"]]

    run(test, scopes=["tools"])


@pytest.mark.peer
def test_work_that_goes_on_after_its_call_finds_the_providers_token_by_the_user() -> None:
    async def test(site: Proxied) -> None:
        store = MemoryTokens()
        async with Client(site.url, auth=OAuth(store=store, open_browser=site.browse())) as client:
            await client.call_tool("theirs")
        binding = json.loads(await store.get(("server", site.url)) or b"")
        kept = Principal("somebody", site.provider.issuer, client_id=binding["client_id"])
        assert await site.proxy.provider_token(kept) == site.given[0]
        with pytest.raises(DovetailError, match="log in again"):
            await site.proxy.provider_token(Principal("nobody", site.provider.issuer, client_id="x"))

    run(test)


# --- clients with a document --------------------------------------------------------------------------------------


@asynccontextmanager
async def client_document(
    folder: Path, monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], Any]
) -> AsyncIterator[tuple[str, list[int]]]:
    """A Client ID Metadata Document by https on this machine; its URL, and how often it was fetched."""
    authority = Authority(folder)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    asked: list[int] = []
    url = ""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.append(1)
        found = answer(url)
        body = found if isinstance(found, bytes) else json.dumps(found).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=authority.server("localhost"))
    url = f"https://localhost:{server.sockets[0].getsockname()[1]}/client.json"
    try:
        yield url, asked
    finally:
        server.close()


def described(url: str) -> dict[str, Any]:
    return {
        "client_id": url,
        "client_name": "described",
        "redirect_uris": [BACK],
        "token_endpoint_auth_method": "none",
    }


@aio
async def test_a_client_is_known_by_its_document_which_is_fetched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        client_document(tmp_path, monkeypatch, described) as (id, asked),
        visitor(allow_private=True) as one,
    ):
        status, _, body = await one.visit(one.authorize_url(id))
        assert status == 200
        assert b"described at <b>localhost</b>" in body
        status, tokens = await one.redeem(id, await one.code(id))
        assert status == 200
        assert await one.accepted(tokens["access_token"])
        assert len(asked) == 1
        assert (await one.visit(one.authorize_url(id, redirect_uri="https://evil.example/")))[0] == 400


@pytest.mark.parametrize(
    "change",
    [{"client_id": "https://localhost/other"}, {"client_id": None}, {"redirect_uris": []}, {"redirect_uris": None},
     {"redirect_uris": ["javascript:alert(1)"]}, {"client_secret": "x"},
     {"token_endpoint_auth_method": "client_secret_post"}, {"client_name": "x" * 20_000}],
)  # fmt: skip
@aio
async def test_a_document_that_says_something_else_is_refused(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(url: str) -> dict[str, Any]:
        return {name: value for name, value in {**described(url), **change}.items() if value is not None}

    async with (
        client_document(tmp_path, monkeypatch, answer) as (id, asked),
        visitor(allow_private=True) as one,
    ):
        for _ in range(3):
            status, headers, _ = await one.visit(one.authorize_url(id))
            assert (status, "location" in headers) == (400, False)
        assert len(asked) == 1  # refusals are cached, too


@aio
async def test_a_document_in_a_private_network_is_not_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client_document(tmp_path, monkeypatch, described) as (id, asked):
        async with visitor(audience="https://outside.example/mcp") as one:
            assert (await one.visit(one.authorize_url(id)))[0] == 400
            for url in (
                "https://127.0.0.1/x",
                "https://169.254.169.254/x",
                "https://[::1]/x",
                "http://localhost/x",
                "https://localhost",
            ):
                assert (await one.visit(one.authorize_url(url)))[0] == 400
        async with visitor() as one:  # a local connection grants no access
            assert (await one.visit(one.authorize_url(id)))[0] == 400
        assert asked == []
        async with visitor(audience="https://outside.example/mcp", allow_private=True) as one:
            resource = {"resource": "https://outside.example/mcp"}
            assert (await one.visit(one.authorize_url(id, **resource)))[0] == 200


# --- presets ------------------------------------------------------------------------------------------------------

GIVEN: dict[str, dict[str, str]] = {
    "github": {}, "discord": {}, "google": {}, "entra": {"tenant": "0f0e"}, "auth0": {"domain": "shop.auth0.com"},
    "keycloak": {"url": "https://id.example/", "realm": "shop"}, "workos": {"domain": "shop.authkit.app"},
}  # fmt: skip
CONFIGURED = {
    "google": "https://accounts.google.com/.well-known/openid-configuration",
    "entra": "https://login.microsoftonline.com/0f0e/v2.0/.well-known/openid-configuration",
    "auth0": "https://shop.auth0.com/.well-known/openid-configuration",
    "keycloak": "https://id.example/realms/shop/.well-known/openid-configuration",
    "workos": "https://shop.authkit.app/.well-known/openid-configuration",
}
NAMED = {
    "github": ("https://github.com/login/oauth/authorize", "read:user"),
    "discord": ("https://discord.com/oauth2/authorize", "identify"),
}
US: dict[str, Any] = {"client_id": "us", "client_secret": SECRET, "audience": "https://shop.example/mcp"}


def test_every_preset_has_a_row_here() -> None:
    assert set(PRESETS) == set(GIVEN)


@pytest.mark.parametrize("name", GIVEN)
@aio
async def test_a_preset_is_a_proxy_for_its_provider(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """The provider is out of reach here: what our log says of it shows where it was looked for."""
    proxy = OAuthProxy.preset(name, **US, **GIVEN[name])
    assert isinstance(proxy, OidcProxy) is (name in CONFIGURED)
    async with visitor(proxy=proxy) as one:
        status, headers, _ = await one.answer(await one.consent_fields(await one.register(), resource=None))
        assert status == 303
    if name in CONFIGURED:
        assert CONFIGURED[name] in caplog.text
        assert query_of(headers["location"])["error"] == "temporarily_unavailable"
    else:
        said = query_of(headers["location"])
        place, scope = NAMED[name]
        assert headers["location"].startswith(f"{place}?")
        assert (said["client_id"], said["scope"], said["code_challenge_method"]) == ("us", scope, "S256")
        assert said["redirect_uri"] == "https://shop.example/auth/callback"


@aio
async def test_a_preset_finds_everything_in_the_configuration_of_its_provider() -> None:
    async with documents() as site:
        path = "/realms/shop/.well-known/openid-configuration"
        issuer = f"{site.url}/realms/shop"
        site.places[path] = {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/auth",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/certs",
        }
        async with visitor(proxy=OAuthProxy.preset("keycloak", url=site.url, realm="shop", **US)) as one:
            id = await one.register()
            _, headers, _ = await one.answer(await one.consent_fields(id, resource=None))
            assert headers["location"].startswith(f"{issuer}/auth?")
            assert query_of(headers["location"])["scope"] == "openid profile email"
            await one.answer(await one.consent_fields(id, resource=None))
            assert site.asked.count(path) == 1


@pytest.mark.parametrize(
    "change",
    [{"issuer": "https://evil.example"}, {"issuer": None}, {"token_endpoint": "http://evil.example/token"},
     {"jwks_uri": "javascript:x"}, {"authorization_endpoint": 7}, {"issuer": "http://127.0.0.1/{tenantid}"}],
)  # fmt: skip
@aio
async def test_a_configuration_that_cannot_be_trusted_is_not_used(change: dict[str, Any]) -> None:
    async with documents() as site:
        issuer = f"{site.url}/realms/shop"
        whole = {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/auth",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/certs",
        }
        site.places["/realms/shop/.well-known/openid-configuration"] = {**whole, **change}
        async with visitor(proxy=OAuthProxy.preset("keycloak", url=site.url, realm="shop", **US)) as one:
            _, headers, _ = await one.answer(await one.consent_fields(await one.register(), resource=None))
            assert query_of(headers["location"])["error"] == "temporarily_unavailable"


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [("gitlab", {}, "unknown preset"), ("entra", {}, "needs tenant"), ("entra", {"tenant": "common"}, "not common"),
     ("keycloak", {"url": "https://id.example"}, "needs realm"), ("auth0", {"domain": "a b"}, "URL")],
)  # fmt: skip
def test_a_preset_names_its_required_options(name: str, options: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        OAuthProxy.preset(name, **US, **options)


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"authorize": "http://id.example/auth"}, "authorize must be"), ({"token": "javascript:x"}, "token is no"),
     ({"audience": "http://shop.example/mcp"}, "audience must be"), ({"client_secret": "short"}, "16 bytes"),
     ({"key": []}, "16 bytes"), ({"method": "tls"}, "method must be one of"), ({"provider_scopes": 'a"'}, "scope")],
)  # fmt: skip
def test_a_proxy_says_which_argument_cannot_be_used(options: dict[str, Any], reason: str) -> None:
    known = {"authorize": "https://id.example/auth", "token": "https://id.example/token", **US}
    with pytest.raises(ValueError, match=reason):
        OAuthProxy(**{**known, **options})


# --- places -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/mcp", "/api/mcp", "/a/b/mcp"])
@aio
async def test_the_pages_are_served_next_to_the_endpoint(path: str) -> None:
    async with visitor(url=f"http://127.0.0.1:{free_port()}{path}") as one:
        folder = path.removesuffix("/mcp")
        origin = one.base.removesuffix(folder)
        for place in (
            f"{origin}/.well-known/oauth-authorization-server{folder}",
            f"{origin}/.well-known/openid-configuration{folder}",
            f"{one.base}/.well-known/openid-configuration",
        ):
            status, _, body = await send("GET", place)
            assert (status, json.loads(body)["issuer"]) == (200, one.base)
        id = await one.register()
        _, tokens = await one.redeem(id, await one.code(id))
        assert await one.accepted(tokens["access_token"])


@aio
async def test_the_server_info_in_metadata_is_the_proxys_and_its_origin_is_added() -> None:
    async with visitor() as one:
        _, _, body = await send("GET", f"{one.base}/.well-known/oauth-protected-resource/mcp")
        found = json.loads(body)
        assert (found["resource"], found["authorization_servers"]) == (one.url, [one.base])
        _, _, body = await send("GET", f"{one.base}/.well-known/oauth-authorization-server")
        found = json.loads(body)
        assert found["code_challenge_methods_supported"] == ["S256"]
        assert found["scopes_supported"] == ["tools"]
        assert found["client_id_metadata_document_supported"] is True
        assert found["authorization_response_iss_parameter_supported"] is True
        assert found["token_endpoint"] == f"{one.base}/token"


@aio
async def test_machine_keys_work_together_with_a_proxy() -> None:
    async with visitor(beside=StaticTokens({"m4chine": "robot"})) as one:
        assert await one.accepted("m4chine")
        id = await one.register()
        _, tokens = await one.redeem(id, await one.code(id))
        assert await one.accepted(tokens["access_token"])
        assert not await one.accepted("nobody")


@aio
async def test_the_doctor_finds_nothing_wrong_with_a_proxy() -> None:
    async with visitor() as one:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dovetail.cli.main", "doctor", "auth", one.url,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate()
        assert process.returncode == 0, (out + err).decode()
        steps = [line.split()[1] for line in out.decode().splitlines() if line.startswith("ok")]
        assert steps == ["challenge:", "resource:", "metadata:", "pkce:", "registration:", "authorization:"]


@pytest.mark.peer
def test_a_user_logs_in_calls_and_logs_out_by_command(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DOVETAIL_TOKEN"}
    environment["XDG_DATA_HOME"] = str(tmp_path)

    async def start(*words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dovetail.cli.main", *words, env=environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip

    async def said(*words: str) -> tuple[int | None, str]:
        process = await start(*words)
        out, _ = await process.communicate()
        return process.returncode, out.decode()

    async def test(site: Proxied) -> None:
        login = await start("login", site.url, "--no-browser")
        assert login.stderr is not None
        page = ""
        while not page.startswith("http"):
            page = (await login.stderr.readline()).decode().strip()
        await site.browse()(page)
        out, _ = await login.communicate()
        assert out.decode() == f"logged in to {site.url} by {site.base}\n"
        assert await said("call", site.url, "who") == (0, "somebody\n")
        code, shown = await said("whoami", site.url, "--json")
        assert (code, json.loads(shown)["issuer"]) == (0, site.base)
        assert "dta_" not in shown
        assert await said("logout", site.url) == (0, "logged out\n")
        assert (await said("call", site.url, "who"))[0] == 1

    run(test)
