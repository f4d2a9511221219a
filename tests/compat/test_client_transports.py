"""Clients of the SDK 1.x and 2.x reach a server that speaks 2026-07-28 alone."""

from __future__ import annotations

import asyncio
import sys

import pytest

from tests.support.aio import run
from tests.support.process import CLI
from tests.support.waiting import HANG

from .originals import PROGRAMS, environment, python, served

pytestmark = pytest.mark.peer

MODERN = str(PROGRAMS / "modern_only.py")


async def client(original: str, function: str, target: str) -> None:
    """Run a function of ``programs/client.py``; it prints what fails."""
    process = await asyncio.create_subprocess_exec(
        python(original),
        str(PROGRAMS / "client.py"),
        function,
        target,
        env=environment(),
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(HANG):
        _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


@pytest.mark.parametrize("original", ["mcp1", "mcp2"])
@pytest.mark.parametrize("function", ["over_stdio", "explicit", "unreachable", "without_websockets"])
def test_a_client_of_the_sdk_starts_a_server(original: str, function: str) -> None:
    @run
    async def scenario() -> None:
        await client(original, function, MODERN)

    scenario()


@pytest.mark.parametrize(
    ("original", "function"),
    [
        ("mcp1", "over_http"),
        ("mcp1", "over_http_with_headers"),
        ("mcp1", "over_sse"),
        ("mcp1", "over_websocket"),
        ("mcp2", "over_http"),
        ("mcp2", "over_sse"),
    ],
)
def test_a_client_of_the_sdk_reaches_a_url(original: str, function: str) -> None:
    @run
    async def scenario() -> None:
        transport = "--ws" if function == "over_websocket" else "--http"
        line = [sys.executable, *CLI[1:], "run", MODERN, transport, "--port", "0"]
        async with served(line) as child:
            await client(original, function, child.url)

    scenario()
