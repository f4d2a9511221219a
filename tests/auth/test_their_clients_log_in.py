"""The clients of the official SDK and of the TypeScript SDK log in to Dovetail servers, with and without a proxy."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from bench import peers

from dovetail import Context, Server
from dovetail.auth import JwtVerifier
from tests.peers.environment import need
from tests.support.web import served

from .oidc import Browser, free_port, oidc
from .proxied import proxied

pytestmark = pytest.mark.peer
HERE = Path(__file__).parent
CLIENTS = {
    "sdk": ("sdk", "sdk_login.py", {"auto": "auto", "legacy": "legacy"}),
    "typescript": ("node", "typescript_login.mjs", {"auto": "auto", "legacy": "legacy"}),
}
CROSSED = {"sdk": "auto", "typescript": "legacy"}
"""The era in which a client goes through the proxy in the quick suite; at the provider itself it is the other one."""


def cells(*, crossed: bool) -> list[Any]:
    """Every client in legacy and modern mode; the slow ones are marked `slow`."""
    return [
        pytest.param(
            client,
            era,
            marks=() if (CROSSED[client] == era) is crossed else pytest.mark.slow,
            id=f"{client}-{era}",
        )
        for client in CLIENTS
        for era in ("auto", "legacy")
    ]


async def log_in(client: str, era: str, url: str, *origins: str) -> tuple[str, list[str]]:
    """Start a client, walk for its user; what it says in the end, and the pages it wanted to be visited."""
    peer, file, eras = CLIENTS[client]
    need(peer)
    process = await asyncio.create_subprocess_exec(
        peers.interpreter(peer), str(HERE / file), url, eras[era],
        env={**peers.environ(), **os.environ, "MODULES": str(peers.PEERS / "node")},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    visits: list[str] = []
    try:
        while line := (await process.stdout.readline()).decode().strip():
            word, _, rest = line.partition(" ")
            if word == "who":
                return rest, visits
            visits.append(rest)
            back = await Browser().log_in(rest, *origins)
            process.stdin.write(back.encode() + b"\n")
        raise AssertionError((await process.stderr.read()).decode()[-3000:])
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def directly() -> AsyncIterator[tuple[str, str]]:
    """A server for the provider's own signed tokens; its URL and the issuer."""
    url = f"http://127.0.0.1:{free_port()}/mcp"
    async with oidc(RESOURCE=url, FORMAT="jwt") as provider:
        server = Server("direct", "1", auth=JwtVerifier(issuer=provider.issuer, audience=url))

        @server.tool(scopes=["tools"])
        async def who(ctx: Context) -> str:
            """Who is calling."""
            return str(ctx.principal)

        async with served(server, port=int(url.split(":")[2].removesuffix("/mcp"))):
            yield url, provider.issuer


@pytest.mark.parametrize(("client", "era"), cells(crossed=True))
def test_a_client_logs_in_through_the_proxy(client: str, era: str) -> None:
    async def test() -> None:
        async with asyncio.timeout(240), proxied() as site:
            who, visits = await log_in(client, era, site.url, site.provider.issuer)
            assert who == "somebody"
            assert [page.startswith(f"{site.base}/authorize?") for page in visits] == [True]

    asyncio.run(test())


@pytest.mark.parametrize(("client", "era"), cells(crossed=False))
def test_a_client_logs_in_at_the_provider_itself(client: str, era: str) -> None:
    async def test() -> None:
        async with asyncio.timeout(240), directly() as (url, issuer):
            who, visits = await log_in(client, era, url)
            assert who == "somebody"
            assert [page.startswith(f"{issuer}/auth?") for page in visits] == [True]

    asyncio.run(test())
