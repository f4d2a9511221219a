"""The npm package `oidc-provider`, run by a script of ours, and a user who agrees to everything."""

import asyncio
import json
import os
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from bench import peers

from dovetail.transports.http.client.connection_pool import HttpFetch
from tests.client.fake_http import JSON, FakeHttp, Reply, Request, modern, serving
from tests.peers.environment import need
from tests.support.waiting import HANG

SCRIPT = peers.ROOT / "scripts" / "node" / "oidc_provider.mjs"


class Oidc:
    """A running provider, and the MCP server that it protects."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.fake: FakeHttp
        self.url = ""
        self.scope = "tools"
        self.needed: dict[str, str] = {}
        self.seen: list[dict[str, Any]] = []
        """What the provider said of each token."""

    async def introspect(self, token: str) -> dict[str, Any]:
        form = urlencode({"token": token, "client_id": "api", "client_secret": "api-secret"})
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        async with HttpFetch().session() as send:
            response = await send("POST", f"{self.issuer}/token/introspection", headers, form.encode())
            body = await response.read(100_000)
            response.close()
        return json.loads(body)

    async def __call__(self, request: Request) -> Reply:
        path = urlsplit(request.path).path
        if path == "/.well-known/oauth-protected-resource/mcp":
            found = {"resource": self.url, "authorization_servers": [self.issuer]}
            return Reply(200, JSON, json.dumps(found).encode())
        if path != "/mcp":
            return Reply(404)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        known = await self.introspect(token) if token else {"active": False}
        self.seen.append({**known, "scheme": scheme, "proof": request.headers.get("dpop")})
        if not known["active"] or known.get("aud") != self.url:
            where = f"{self.url.removesuffix('/mcp')}/.well-known/oauth-protected-resource/mcp"
            challenge = f'Bearer resource_metadata="{where}", scope="{self.scope}"'
            return Reply(401, {"WWW-Authenticate": challenge})
        needed = self.needed.get(request.method)
        if needed is not None and needed not in known["scope"].split():
            challenge = f'Bearer error="insufficient_scope", scope="{needed}"'
            return Reply(403, {"WWW-Authenticate": challenge})
        return modern(request)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@asynccontextmanager
async def oidc(**environment: str) -> AsyncIterator[Oidc]:
    """A provider and a server protected by it."""
    need("node")
    port = free_port()
    running = Oidc(f"http://127.0.0.1:{port}")
    async with serving(running) as (fake, url):
        running.fake, running.url = fake, url
        environ = {**os.environ, "MODULES": str(peers.PEERS / "node"), "RESOURCE": url, **environment}
        process = await asyncio.create_subprocess_exec(
            peers.interpreter("node"),
            str(SCRIPT),
            str(port),
            env=environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(HANG):
                while (line := await process.stdout.readline()).strip() != b"ready":
                    assert line, "the provider ended"
            yield running
        finally:
            process.kill()
            await process.wait()


class Browser:
    """A browser without a window: it keeps cookies, follows redirects, and agrees to whatever a page asks."""

    def __init__(self) -> None:
        self._cookies: dict[str, str] = {}

    async def log_in(self, url: str, *more: str) -> str:
        """Visit ``url`` and agree to all that comes; the first address outside the provider and ``more`` origins."""
        origins = {urlsplit(each)[:2] for each in (url, *more)}
        for _ in range(20):
            if urlsplit(url)[:2] not in origins:
                return url
            status, location, page = await self._send("GET", url)
            while location is None:
                assert status == 200, page
                status, location, page, url = await self._submit(url, page)
            url = urljoin(url, location)
        raise AssertionError("no end of pages")

    async def type_code(self, url: str, code: str) -> str:
        """Visit the page for codes, type one in and agree; the text of the last page."""
        _, _, page = await self._send("GET", url)
        status, location, page, url = await self._submit(url, page, user_code=code)
        for _ in range(10):
            while location is not None:
                url = urljoin(url, location)
                status, location, page = await self._send("GET", url)
            if "<form" not in page:
                return page
            status, location, page, url = await self._submit(url, page)
        raise AssertionError(f"no end of pages: {status}")

    async def _submit(self, url: str, page: str, **more: str) -> tuple[int, str | None, str, str]:
        form = re.search(r"<form[^>]*>.*?</form>", page, re.DOTALL)
        assert form is not None, page
        action = re.search(r'action="([^"]*)"', form[0])
        fields = dict(re.findall(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"', form[0]))
        button = re.search(r'<button[^>]*name="([^"]+)" value="([^"]+)"', form[0])
        if button is not None:
            fields[button[1]] = button[2]
        names = re.findall(r'<input[^>]*name="([^"]+)"', form[0])
        typed = {name: "somebody" for name in names if name in ("login", "password")}
        target = urljoin(url, action[1]) if action is not None else url
        body = urlencode({**fields, **typed, **more}).encode()
        return (*await self._send("POST", target, body), target)

    async def _send(self, method: str, url: str, body: bytes | None = None) -> tuple[int, str | None, str]:
        headers = {"Accept": "text/html", "Content-Type": "application/x-www-form-urlencoded"}
        if self._cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        async with HttpFetch().session() as send:
            response = await send(method, url, headers, body)
            page = (await response.read(1_000_000)).decode()
            found = response.headers.get("Set-Cookie", "")
            self._cookies.update(
                parse_qsl(";".join(re.findall(r"(?:^|, )([\w.-]+=[^;]*)", found)), separator=";")
            )
            response.close()
        return response.status, response.headers.get("Location"), page
