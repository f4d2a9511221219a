"""FastMCP's proxies in front of a provider: logins through ours, with what their options decide."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from urllib.parse import urlsplit

import pytest

from dovetail.compat.fastmcp import FastMCP
from dovetail.compat.fastmcp.server.auth import AccessToken, TokenVerifier
from dovetail.compat.fastmcp.server.auth.oauth_proxy import OAuthProxy
from dovetail.compat.fastmcp.server.auth.providers.github import GitHubProvider
from dovetail.compat.fastmcp.server.auth.redirects import is_allowed
from dovetail.compat.fastmcp.server.dependencies import get_access_token
from tests.auth.documents import documents
from tests.auth.oidc import free_port
from tests.auth.visitor import BACK, SECRET, Visitor
from tests.support.web import served


class Knows(TokenVerifier):
    """Knows one token of the provider's."""

    def __init__(self, known: str) -> None:
        super().__init__()
        self.known = known

    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id="ann", scopes=["tools"]) if token == self.known else None


def log_in(known: str, *, redirects: list[str] | None = None) -> tuple[int, bool]:
    """The status of the login page; and, where it is one, whether the token of the login is accepted."""

    async def conversation() -> tuple[int, bool]:
        url = f"http://127.0.0.1:{free_port()}/mcp"
        async with documents() as provider:
            provider.places["/token"] = {"access_token": "pr0vider-access", "token_type": "Bearer"}
            proxy = OAuthProxy(
                upstream_authorization_endpoint=f"{provider.url}/auth",
                upstream_token_endpoint=f"{provider.url}/token",
                upstream_client_id="us",
                upstream_client_secret=SECRET,
                token_verifier=Knows(known),
                base_url=url.removesuffix("/mcp"),
                allowed_client_redirect_uris=redirects,
            )
            mcp = FastMCP("behind", auth=proxy)

            @mcp.tool
            def who() -> str:
                token = get_access_token()
                return "nobody" if token is None else token.client_id

            native: Any = mcp.native
            async with served(native, port=urlsplit(url).port or 0, path="/mcp"):
                visitor = Visitor(url, provider, native.auth, native)
                client_id = await visitor.register()
                status = (await visitor.visit(visitor.authorize_url(client_id)))[0]
                if status != 200:
                    return status, False
                _, tokens = await visitor.redeem(client_id, await visitor.code(client_id))
                return status, await visitor.accepted(tokens["access_token"])

    return asyncio.run(conversation())


def test_a_login_counts_when_the_verifier_knows_the_token_of_the_provider() -> None:
    assert log_in("pr0vider-access") == (200, True)
    assert log_in("another") == (200, False)


def test_users_go_back_only_where_the_author_lets_them() -> None:
    assert log_in("pr0vider-access", redirects=["http://127.0.0.1:*"]) == (200, True)
    assert log_in("pr0vider-access", redirects=["https://app.example.com/*"]) == (400, False)
    assert log_in("pr0vider-access", redirects=[]) == (400, False)


@pytest.mark.parametrize(
    ("uri", "pattern", "fits"),
    [
        (BACK, "http://127.0.0.1:*", True),
        (BACK, "http://127.0.0.1:9999/callback", True),
        (BACK, "http://127.0.0.1/callback", True),
        (BACK, "http://127.0.0.1:9998/callback", False),
        (BACK, "http://127.0.0.1:*/other", False),
        ("https://a.example.com/cb", "https://*.example.com/*", True),
        ("https://a.example.com:444/cb", "https://*.example.com/*", False),
        ("https://example.com.evil.net/cb", "https://*.example.com/*", False),
        ("https://evilexample.com/cb", "https://*.example.com/*", False),
        ("http://localhost@evil.net/cb", "http://localhost:*", False),
        ("http://localhost:80@evil.net/cb", "http://localhost:*", False),
        ("https://a.example.com/cb/../x", "https://a.example.com/cb/*", False),
        ("https://a.example.com/cb/%2e%2e/x", "https://a.example.com/cb/*", False),
        ("http://a.example.com/cb", "https://a.example.com/cb", False),
        ("cursor://anysphere.cursor/cb", "cursor://anysphere.cursor/*", True),
    ],
)
def test_redirects_fit_their_patterns_or_do_not(uri: str, pattern: str, fits: bool) -> None:
    assert is_allowed(uri, [pattern]) is fits


def github(**options: Any) -> GitHubProvider:
    return GitHubProvider(client_id="us", client_secret=SECRET, base_url="https://here.example", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"client_storage": object()},
        {"enable_cimd": False},
        {"extra_token_params": {"a": "b"}},
        {"issuer_url": "https://elsewhere.example"},
        {"fastmcp_access_token_expiry_seconds": 60},
        {"identity_assertion": object()},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_cannot_be_honoured_is_refused_by_its_name(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        github(**options)


def test_an_option_that_nobody_knows_is_refused() -> None:
    with pytest.raises(TypeError, match="'no_such_option'"):
        github(no_such_option=1)


def test_what_makes_no_difference_is_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("DOVETAIL_STORE", "memory:")
    github(timeout_seconds=5, require_authorization_consent=False, client_storage=object())
    said = " ".join(record.getMessage() for record in caplog.records)
    for word in ("timeout_seconds", "require_authorization_consent", "client_storage"):
        assert word in said
