"""What a proxy believes of its provider, keeps to itself, and does while the provider is slow."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from dovetail.auth import OidcProxy, Unavailable
from dovetail.auth.server import json_documents as fetching
from dovetail.transports.http.client.guarded_fetch import AddressGuard
from tests.support.aio import run
from tests.support.waiting import HANG, until

from .documents import Documents, documents
from .oidc import free_port
from .proxied import query_of, send
from .visitor import SECRET, VERIFIER, Visitor, visitor

KEY = ECKey.generate_key("P-256", {"kid": "k"})
OTHER = ECKey.generate_key("P-256", {"kid": "k"})


@asynccontextmanager
async def with_oidc() -> AsyncIterator[tuple[Visitor, Documents]]:
    """A server with `OidcProxy`; the test determines the responses of the provider."""
    url = f"http://127.0.0.1:{free_port()}/mcp"
    async with documents() as site:
        site.places["/.well-known/openid-configuration"] = {
            "issuer": site.url,
            "authorization_endpoint": f"{site.url}/auth",
            "token_endpoint": f"{site.url}/token",
            "jwks_uri": f"{site.url}/keys",
        }
        site.places["/keys"] = {"keys": [KEY.as_dict(private=False)]}
        config = f"{site.url}/.well-known/openid-configuration"
        proxy = OidcProxy(config_url=config, client_id="us", client_secret=SECRET, audience=url)
        async with visitor(url=url, proxy=proxy) as one:
            yield one, site


async def away(one: Visitor) -> dict[str, str]:
    """Walk to the provider; what it is asked."""
    _, headers, _ = await one.answer(await one.consent_fields(await one.register()))
    return query_of(headers["location"])


def id_token(site: Documents, nonce: str, key: Any = KEY, **claims: Any) -> str:
    whole = {"iss": site.url, "aud": "us", "sub": "ann", "exp": time.time() + 60, "nonce": nonce, **claims}
    kept = {name: value for name, value in whole.items() if value is not None}
    return jwt.encode({"alg": "ES256", "kid": "k"}, kept, key)


@run
async def test_an_id_token_identifies_the_user() -> None:
    async with with_oidc() as (one, site):
        asked = await away(one)
        assert (asked["scope"], asked["code_challenge_method"]) == ("openid", "S256")
        site.places["/token"] = {"access_token": "theirs", "id_token": id_token(site, asked["nonce"])}
        _, headers, _ = await one.come_back(asked["state"])
        assert "code" in query_of(headers["location"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"nonce": "another"}, "another login"),
        ({"nonce": None}, "another login"),
        ({"aud": "somebody"}, "audience"),
        ({"aud": ["us", "them"], "azp": "them"}, "another login"),
        ({"iss": "https://evil.example"}, "issuer"),
        ({"exp": 1}, "expired"),
        ({"sub": None}, "sub"),
        ({"key": OTHER}, "signature"),
    ],
)
@run
async def test_an_invalid_id_token_denies_access(change: dict[str, Any], reason: str) -> None:
    async with with_oidc() as (one, site):
        asked = await away(one)
        made = id_token(site, **{"nonce": asked["nonce"], **change})
        site.places["/token"] = {"access_token": "theirs", "id_token": made}
        _, headers, _ = await one.come_back(asked["state"])
        said = query_of(headers["location"])
        assert (said["error"], "code" in said) == ("access_denied", False)
        assert reason in said["error_description"]


@pytest.mark.parametrize("token", [None, "", "x.y.z", "eyJhbGciOiJub25lIn0.e30."])
@run
async def test_without_an_id_token_access_is_denied(token: str | None) -> None:
    async with with_oidc() as (one, site):
        asked = await away(one)
        site.places["/token"] = {"access_token": "theirs", "id_token": token}
        _, headers, _ = await one.come_back(asked["state"])
        assert query_of(headers["location"])["error"] == "access_denied"


@run
async def test_no_secret_is_in_any_log_or_page(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[bytes] = []
    async with visitor() as one:
        id = await one.register()
        state = await one.agree(id)
        cookies = list(one.cookies.values())
        _, headers, body = await one.come_back(state, code="pr0vider-code")
        seen.append(body)
        code = query_of(headers["location"])["code"]
        _, tokens = await one.redeem(id, code)
        assert await one.accepted(tokens["access_token"])
        _, renewed = await one.renew(id, tokens["refresh_token"])
        secrets = [SECRET, VERIFIER, "pr0vider-code", "pr0vider-access", state, code, *cookies]
        secrets += [each[name] for each in (tokens, renewed) for name in ("access_token", "refresh_token")]
        # Once more with values that are worthless, and with a provider that fails and repeats its input.
        echo = json.dumps({"error": "invalid_grant", "error_description": " ".join(secrets)})
        one.provider.places["/token"] = (
            f"HTTP/1.1 400 No\r\nContent-Length: {len(echo)}\r\n\r\n{echo}".encode()
        )
        for answer in (
            await one.come_back(state, code="pr0vider-code"),
            await one.come_back(await one.agree(id), code="pr0vider-code"),
            await one.visit(f"{one.base}/auth/callback?state={state}&error={code}"),
            await send("POST", f"{one.base}/consent", {}, {"id": "x", "request": state}),
        ):
            seen += [answer[2], str({k: v for k, v in answer[1].items() if k != "set-cookie"}).encode()]
        for page, form in (
            ("token", {"grant_type": "authorization_code", "code": code, "client_id": id}),
            (
                "token",
                {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_id": id},
            ),
            ("revoke", {"token": renewed["access_token"], "client_id": id, "client_secret": SECRET}),
        ):
            seen.append(json.dumps(await one.post(page, form)).encode())
        assert not await one.accepted(tokens["access_token"])
        seen += [repr(one.proxy).encode(), repr(one.server).encode()]
        one.provider.places["/token"] = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
        await one.come_back(await one.agree(id))
    said = caplog.text.encode() + b"".join(seen)
    assert b"/token: " in said  # the log was on
    assert [secret for secret in secrets if secret.encode() in said] == []


@run
async def test_a_slow_provider_does_not_delay_other_callers() -> None:
    async with visitor() as one:
        id = await one.register()
        _, tokens = await one.redeem(id, await one.code(id))
        browsers = [one.other_browser() for _ in range(10)]
        waiting = [await browser.agree(id) for browser in browsers]
        one.provider.held.clear()
        stuck = [
            asyncio.ensure_future(browser.come_back(state))
            for browser, state in zip(browsers, waiting, strict=True)
        ]
        before = one.provider.asked.count("/token")
        await until(lambda: one.provider.asked.count("/token") == before + 10)
        async with asyncio.timeout(HANG):
            assert await one.accepted(tokens["access_token"])
            assert (await one.renew(id, tokens["refresh_token"]))[0] == 200
            assert (await one.visit(one.authorize_url(id)))[0] == 200
        one.provider.held.set()
        assert {status for status, _, _ in await asyncio.gather(*stuck)} == {303}


@run
async def test_a_document_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "DOCUMENT_SECONDS", 0.5)

    async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
        await reader.read()  # until the other side has had enough
        writer.close()

    server = await asyncio.start_server(stall, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    with pytest.raises(Unavailable):
        await fetching.fetch(url, guard=AddressGuard(url, allow_private=False))
    server.close()
