"""One login through a proxy, step by step, so that a test can spoil any of them. The provider is a few lines."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

from dovetail import Context, Server
from dovetail.auth import AnyOf, OAuthProxy
from dovetail.auth.core.oauth_urls import origin
from dovetail.auth.core.pkce import s256
from tests.support.waiting import HANG
from tests.support.web import modern, modern_headers, served

from .documents import Documents, documents
from .oidc import free_port
from .proxied import query_of, register, send

BACK = "http://127.0.0.1:9999/callback"
VERIFIER = "v" * 43
SECRET = "secret-of-the-proxy-at-the-provider"


class Visitor:
    """A browser and a client at one server."""

    def __init__(
        self, url: str, provider: Documents, proxy: OAuthProxy, server: Server, address: str = "127.0.0.1"
    ) -> None:
        self.url = url
        self.address = address
        self.base = url.removesuffix("/mcp")
        self.provider = provider
        self.proxy = proxy
        self.server = server
        self.cookies: dict[str, str] = {}

    def other_browser(self) -> "Visitor":
        return Visitor(self.url, self.provider, self.proxy, self.server)

    def elsewhere(self, address: str) -> "Visitor":
        """Another browser, that comes from another address."""
        return Visitor(self.url, self.provider, self.proxy, self.server, address)

    async def register(self, *uris: str, **more: Any) -> str:
        return (await register(self.base, *(uris or (BACK,)), **more))["client_id"]

    def authorize_url(self, client_id: str, **more: str | None) -> str:
        query: dict[str, str | None] = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": BACK,
            "state": "state-of-the-client",
            "code_challenge": s256(VERIFIER),
            "code_challenge_method": "S256",
            "scope": "tools",
            "resource": self.url,
            **more,
        }
        kept = {name: value for name, value in query.items() if value is not None}
        return f"{self.base}/authorize?{urlencode(kept)}"

    async def visit(
        self, url: str, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        return self._kept(await self._send("GET", url, {**self._cookie(), **(headers or {})}))

    async def consent_fields(self, client_id: str, **more: str | None) -> dict[str, str]:
        """Open the page that asks; what its form has."""
        status, _, body = await self.visit(self.authorize_url(client_id, **more))
        assert status == 200, body
        return dict(re.findall(r'name="(\w+)" value="([^"]*)"', body.decode().replace('value="deny"', "")))

    async def answer(
        self, fields: dict[str, str], headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        lines = {
            "Origin": origin(self.proxy.issuers[0]),
            "Sec-Fetch-Site": "same-origin",
            **self._cookie(),
            **(headers or {}),
        }
        return self._kept(await self._send("POST", f"{self.base}/consent", lines, fields))

    async def agree(self, client_id: str, **more: str | None) -> str:
        """Walk up to the provider; the state it is given."""
        status, headers, body = await self.answer(await self.consent_fields(client_id, **more))
        assert status == 303, body
        return query_of(headers["location"])["state"]

    async def come_back(self, state: str, **more: str) -> tuple[int, dict[str, str], bytes]:
        return await self.visit(
            f"{self.base}/auth/callback?{urlencode({'code': 'theirs', 'state': state, **more})}"
        )

    async def code(self, client_id: str, **more: str | None) -> str:
        """The whole way to a code of ours."""
        status, headers, body = await self.come_back(await self.agree(client_id, **more))
        assert status == 303, body
        return query_of(headers["location"])["code"]

    async def redeem(self, client_id: str, code: str, **more: str | None) -> tuple[int, dict[str, Any]]:
        form = {"grant_type": "authorization_code", "code": code, "client_id": client_id, "redirect_uri": BACK,
                "code_verifier": VERIFIER, "resource": self.url, **more}  # fmt: skip
        return await self.post("token", form)

    async def renew(self, client_id: str, token: str, **more: str | None) -> tuple[int, dict[str, Any]]:
        form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": client_id, **more}
        return await self.post("token", form)

    async def post(self, page: str, form: dict[str, str | None]) -> tuple[int, dict[str, Any]]:
        kept = {name: value for name, value in form.items() if value is not None}
        status, _, body = await send("POST", f"{self.base}/{page}", {}, kept)
        return status, json.loads(body)

    async def accepted(self, token: str) -> bool:
        """Whether the server takes the token."""
        message = modern("tools/list", {})
        headers = {**modern_headers(message), "Authorization": f"Bearer {token}"}
        status, _, _ = await send("POST", self.url, headers, json.dumps(message).encode())
        assert status in (200, 401)
        return status == 200

    async def _send(
        self, method: str, url: str, headers: dict[str, str], form: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        if self.address == "127.0.0.1":
            return await send(method, url, headers, form)
        return await asyncio.to_thread(_send_from, self.address, method, url, headers, form)

    def _cookie(self) -> dict[str, str]:
        return (
            {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
            if self.cookies
            else {}
        )

    def _kept(self, answer: tuple[int, dict[str, str], bytes]) -> tuple[int, dict[str, str], bytes]:
        found = re.match(r"([\w-]+)=([^;]*)", answer[1].get("set-cookie", ""))
        if found is not None and found[2]:
            self.cookies[found[1]] = found[2]
        elif found is not None:
            self.cookies.pop(found[1], None)
        return answer


def _send_from(
    address: str, method: str, url: str, headers: dict[str, str], form: dict[str, str] | None
) -> tuple[int, dict[str, str], bytes]:
    """The same as `send`, from another address of this machine."""
    where = urlsplit(url)
    body = None if form is None else urlencode(form)
    lines = headers if body is None else {"Content-Type": "application/x-www-form-urlencoded", **headers}
    with closing(HTTPConnection(where.netloc, source_address=(address, 0), timeout=HANG)) as connection:
        connection.request(method, f"{where.path}?{where.query}", body, lines)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()


@asynccontextmanager
async def visitor(
    *,
    url: str | None = None,
    store: Any = None,
    proxy: OAuthProxy | None = None,
    beside: Any = None,
    **options: Any,
) -> AsyncIterator[Visitor]:
    """A server with a proxy, and a provider whose user is ann."""
    url = url or f"http://127.0.0.1:{free_port()}/mcp"
    async with documents() as provider:
        provider.places["/token"] = {"access_token": "pr0vider-access", "token_type": "Bearer"}
        provider.places["/me"] = {"sub": "ann", "mail": "ann@example.com"}
        places = {
            name: f"{provider.url}/{page}"
            for name, page in (("authorize", "auth"), ("token", "token"), ("userinfo", "me"))
        }
        given: dict[str, Any] = {
            **places,
            "client_id": "us",
            "client_secret": SECRET,
            "audience": url,
            **options,
        }
        proxy = proxy or OAuthProxy(**given)
        server = Server("behind", "1", auth=proxy if beside is None else AnyOf(proxy, beside), store=store)

        @server.tool(scopes=["tools"])
        async def who(ctx: Context) -> str:
            """Who is calling."""
            return str(ctx.principal)

        async with served(server, port=urlsplit(url).port or 0, path=urlsplit(url).path):
            yield Visitor(url, provider, proxy, server)
