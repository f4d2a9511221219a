"""Dovetail's client logs in to the official SDK's protected server, on legacy and modern revisions."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from bench import peers

from dovetail import Client
from dovetail.auth import MemoryTokens, OAuth
from tests.peers.environment import need
from tests.support.waiting import reached

from .oidc import free_port
from .test_oidc_provider import come_back

pytestmark = pytest.mark.peer
FILE = Path(__file__).with_name("sdk_protected.py")


@asynccontextmanager
async def protected() -> AsyncIterator[str]:
    need("sdk")
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        peers.interpreter("sdk"),
        str(FILE),
        str(port),
        env=peers.environ(),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        for patience in range(4, -1, -1):  # the SDK takes its time to start on a busy machine
            try:
                _, writer = await reached(lambda: asyncio.open_connection("127.0.0.1", port))
                writer.close()
                break
            except TimeoutError:
                assert patience
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.wait()


# Logging in is the same in all revisions of one era: `make test-slow` has the one in the middle.
@pytest.mark.parametrize(
    "revision", ["2025-06-18", pytest.param("2025-11-25", marks=pytest.mark.slow), "2026-07-28"]
)
def test_dovetails_client_logs_in_to_the_official_protected_server(revision: str) -> None:
    async def test() -> None:
        visits: list[str] = []

        async def visit(url: str) -> None:
            visits.append(url)
            await come_back(url)

        async with asyncio.timeout(120), protected() as url:
            auth = OAuth(store=MemoryTokens(), open_browser=visit)
            async with Client(url, revision=revision, auth=auth) as client:
                until = time.monotonic() + 4  # tokens last for two seconds: at least one renewal
                while time.monotonic() < until:
                    assert (await client.call_tool("add", {"a": 2, "b": 3})).data in (5, {"result": 5})
        assert len(visits) == 1

    asyncio.run(test())
