"""A Dovetail server with `OidcProxy` or `OAuthProxy` on a real socket, and oidc-provider as its provider."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from dovetail import Context, Server
from dovetail.auth import OAuthProxy, OidcProxy
from dovetail.transports.http.client.connection_pool import HttpFetch
from tests.support.web import Site, served

from .oidc import Browser, Oidc, free_port, oidc

SECRET = "proxy-secret-that-is-long"


class Proxied:
    """A running server, its proxy, and the upstream provider."""

    def __init__(self, url: str, provider: Oidc, proxy: OAuthProxy, site: Site) -> None:
        self.url = url
        self.base = url.removesuffix("/mcp")
        self.provider = provider
        self.proxy = proxy
        self.site = site
        self.given: list[str] = []
        """Provider tokens that tools have seen."""

    def browse(self, visited: list[str] | None = None) -> Callable[[str], Any]:
        """A substitute for ``open_browser``: a separate browser completes the login and visits the page."""

        async def walk(url: str) -> None:
            if visited is not None:
                visited.append(url)
            back = await Browser().log_in(url, self.provider.issuer)
            async with HttpFetch().session() as send:
                response = await send("GET", back, {})
                assert response.status == 200, back
                response.close()

        return walk


def options(provider: str, url: str, *, plain: bool = False, **more: Any) -> dict[str, Any]:
    known = {"client_id": "proxy", "client_secret": SECRET, "audience": url}
    if plain:
        places = {"authorize": f"{provider}/auth", "token": f"{provider}/token", "userinfo": f"{provider}/me"}
        return {
            **known,
            **places,
            "revocation": f"{provider}/token/revocation",
            "provider_scopes": "openid",
            **more,
        }
    config = f"{provider}/.well-known/openid-configuration"
    wanted = {"provider_scopes": "openid offline_access", "extra": {"prompt": "consent"}}
    return {**known, "config_url": config, **wanted, **more}


@asynccontextmanager
async def proxied(
    *, plain: bool = False, store: Any = None, environment: dict[str, str] | None = None, **more: Any
) -> AsyncIterator[Proxied]:
    """A server for ``OidcProxy``, or with ``plain`` for ``OAuthProxy`` and the provider's page about users."""
    url = f"http://127.0.0.1:{free_port()}/mcp"
    env = {"CALLBACK": url.replace("/mcp", "/auth/callback"), "PLAIN": "1", **(environment or {})}
    async with oidc(**env) as provider:
        make = OAuthProxy if plain else OidcProxy
        proxy = make(**options(provider.issuer, url, plain=plain, **more))
        server = Server("proxied", "1", auth=proxy, store=store)
        seen: list[str] = []

        @server.tool(scopes=["tools"])
        async def who(ctx: Context) -> str:
            """Who is calling."""
            return str(ctx.principal)

        @server.tool(scopes=["more"])
        async def further() -> str:
            """Needs another scope."""
            return "further"

        @server.tool(scopes=["tools"])
        async def theirs(ctx: Context) -> str:
            """Whether the provider's token can be had."""
            seen.append(await proxy.provider_token(ctx.principal))
            return "seen"

        async with served(server, port=urlsplit(url).port or 0) as site:
            running = Proxied(url, provider, proxy, site)
            running.given = seen
            yield running


async def send(
    method: str, url: str, headers: dict[str, str] | None = None, form: dict[str, str] | bytes | None = None
) -> tuple[int, dict[str, str], bytes]:
    """One request; status, headers (names in lower case) and body."""
    lines = dict(headers or {})
    body = form if form is None or isinstance(form, bytes) else urlencode(form).encode()
    if body is not None:
        lines.setdefault("Content-Type", "application/x-www-form-urlencoded")
    async with HttpFetch().session() as ask:
        response = await ask(method, url, lines, body)
        data = await response.read(1_000_000)
        found = {name.lower(): value for name, value in response.headers.items()}
        response.close()
    return response.status, found, data


async def register(base: str, *uris: str, **more: Any) -> dict[str, Any]:
    wanted = {"redirect_uris": list(uris), "token_endpoint_auth_method": "none", **more}
    status, _, body = await send(
        "POST", f"{base}/register", {"Content-Type": "application/json"}, json.dumps(wanted).encode()
    )
    assert status == 201, body
    return json.loads(body)


def query_of(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))
