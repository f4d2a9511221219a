"""A protected MCP server and its authorization server in one, which a test can spoil in any way."""

import base64
import hashlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from dovetail import Client
from dovetail.auth import MemoryTokens, OAuth
from dovetail.transports.http.client.connection_pool import HttpFetch
from tests.client.fake_http import JSON, FakeHttp, Reply, Request, modern, serving

REDIRECT = "http://localhost:3000/callback"


class Provider:
    """Answers for both. What it says about itself stands in dicts; ``None`` takes a member out."""

    def __init__(self) -> None:
        self.base = ""
        self.fake: FakeHttp
        self.path = "/as"
        self.resource: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.redirect: dict[str, str | None] = {}
        """Members of the authorization response."""
        self.answers: dict[str, Callable[[Request], Reply | None]] = {}
        """The response of a path that replaces the correct one; None for the correct one."""
        self.scope: str | None = "base"
        """What the challenge asks for."""
        self.needed: dict[str, str] = {}
        """Scopes that a method needs."""
        self.lifetime: int | None = 3600
        self.rotates = True
        self.granted: dict[str, str] = {}
        """Access tokens and their scopes."""
        self.refreshable: set[str] = set()
        self.codes: dict[str, dict[str, str]] = {}
        self.issued = itertools.count(1)
        self.secrets: list[str] = []
        """All secrets, which no other party may see."""

    @property
    def url(self) -> str:
        return f"{self.base}/mcp"

    @property
    def issuer(self) -> str:
        return f"{self.base}{self.path}"

    def asked(self, path: str) -> list[Request]:
        return [each for each in self.fake.requests if urlsplit(each.path).path == path]

    def forms(self, path: str = "/token") -> list[dict[str, str]]:
        return [dict(parse_qsl(each.body.decode())) for each in self.asked(path)]

    def authorizations(self) -> list[dict[str, str]]:
        return [dict(parse_qsl(urlsplit(each.path).query)) for each in self.asked("/authorize")]

    def secret(self, kind: str) -> str:
        made = f"{kind}-{next(self.issued)}-{hashlib.sha256(kind.encode()).hexdigest()[:12]}"
        self.secrets.append(made)
        return made

    # --- answers --------------------------------------------------------------------------------------------------

    def __call__(self, request: Request) -> Reply:
        path = urlsplit(request.path).path
        spoilt = self.answers.get(path)
        reply = None if spoilt is None else spoilt(request)
        if reply is not None:
            return reply
        if path == "/mcp":
            return self._mcp(request)
        if path == "/.well-known/oauth-protected-resource/mcp":
            return document({"resource": self.url, "authorization_servers": [self.issuer]}, self.resource)
        if path == f"/.well-known/oauth-authorization-server{self.path}":
            return document(self._described(), self.metadata)
        routes = {"/authorize": self._authorize, "/token": self._token, "/register": self._register,
                  "/revoke": lambda _: Reply(200)}  # fmt: skip
        return routes[path](request) if path in routes else Reply(404)

    def _described(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.base}/authorize",
            "token_endpoint": f"{self.base}/token",
            "registration_endpoint": f"{self.base}/register",
            "revocation_endpoint": f"{self.base}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
        }

    def _mcp(self, request: Request) -> Reply:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.granted:
            scope = "" if self.scope is None else f', scope="{self.scope}"'
            challenge = (
                f'Bearer resource_metadata="{self.base}/.well-known/oauth-protected-resource/mcp"{scope}'
            )
            return Reply(401, {"WWW-Authenticate": challenge})
        needed = self.needed.get(request.method)
        if needed is not None and needed not in self.granted[token].split():
            return Reply(403, {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{needed}"'})
        return modern(request)

    def _authorize(self, request: Request) -> Reply:
        query = dict(parse_qsl(urlsplit(request.path).query))
        code = self.secret("code")
        self.secrets.append(query["state"])
        self.codes[code] = query
        answer = {"code": code, "state": query["state"], **self.redirect}
        kept = urlencode({name: value for name, value in answer.items() if value is not None})
        return Reply(302, {"Location": f"{query['redirect_uri']}?{kept}"})

    def _token(self, request: Request) -> Reply:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        if form["grant_type"] == "authorization_code":
            asked = self.codes.pop(form["code"], None)
            if asked is None or s256(form["code_verifier"]) != asked["code_challenge"]:
                return refuse("invalid_grant")
            self.secrets.append(form["code_verifier"])
            scope = asked.get("scope", "")
        elif form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self.refreshable:
                return refuse("invalid_grant")
            if self.rotates:
                self.refreshable.discard(form["refresh_token"])
            scope = " ".join(self.granted.values())
        else:
            scope = form.get("scope", "")
        return self.grant(scope)

    def grant(self, scope: str) -> Reply:
        token, refresh = self.secret("access"), self.secret("refresh")
        self.granted[token] = scope
        self.refreshable.add(refresh)
        made = {"access_token": token, "token_type": "Bearer", "refresh_token": refresh, "scope": scope}
        return answer(200, made | ({} if self.lifetime is None else {"expires_in": self.lifetime}))

    def _register(self, request: Request) -> Reply:
        return answer(201, {**json.loads(request.body), "client_id": f"client-{next(self.issued)}"})


def s256(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def answer(status: int, value: Any, **headers: str) -> Reply:
    return Reply(status, {**JSON, **headers}, json.dumps(value).encode())


def refuse(code: str, description: str | None = None, status: int = 400) -> Reply:
    said = {"error": code} | ({} if description is None else {"error_description": description})
    return answer(status, said)


def document(usual: Mapping[str, Any], changed: Mapping[str, Any]) -> Reply:
    whole = {**usual, **changed}
    return answer(200, {name: value for name, value in whole.items() if value is not None})


@asynccontextmanager
async def provided(provider: Provider | None = None) -> AsyncIterator[Provider]:
    provider = provider or Provider()
    async with serving(provider) as (fake, url):
        provider.fake, provider.base = fake, url.removesuffix("/mcp")
        yield provider


async def visit(url: str) -> str:
    """A browser whose user agrees at once; it is sent back and does not go there."""
    async with HttpFetch().session() as send:
        response = await send("GET", url, {})
        response.close()
        return response.headers["Location"]


def oauth(**options: Any) -> OAuth:
    """A login without a window, in memory."""
    given = {"store": MemoryTokens(), "redirect_uri": REDIRECT, "authorize": visit}
    return OAuth(**{**given, **options})


def client(provider: Provider, auth: Any = None, **options: Any) -> Client:
    return Client(provider.url, revision="modern", auth=oauth() if auth is None else auth, **options)


async def log_in(provider: Provider, auth: Any = None) -> None:
    async with client(provider, auth) as connected:
        await connected.list_tools()
