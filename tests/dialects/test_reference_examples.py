"""The literal examples of the reference documents, held with a real server over every transport.

``examples/`` has one file for each example. ``tests/transcripts`` holds the same conversations in memory.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from websockets.asyncio.client import connect

from dovetail import Server
from dovetail.core.channel import Link
from dovetail.drivers.duplex import lifespan
from dovetail.transports import tcp
from tests.support import fixture_servers
from tests.support.aio import run_limited
from tests.support.transcripts import EXAMPLES, Listener, Transcript, load_all, speak
from tests.support.web import served
from tests.support.webfaces import Pair, Posting, Socket

ROOT = Path(__file__).resolve().parents[2]
SERVE = """
import sys
from tests.support import fixture_servers
fixture_servers.make(sys.argv[1], sys.argv[2]).run()
"""
SPOKEN = [transcript for transcript in load_all(EXAMPLES) if transcript.spoken]


class PipeLink:
    """Sends lines to a child."""

    def __init__(self, pipe: asyncio.StreamWriter) -> None:
        self._pipe = pipe

    def send(self, message: bytes) -> None:
        assert b"\n" not in message
        self._pipe.write(message + b"\n")


async def over_stdio(transcript: Transcript) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SERVE,
        transcript.headers["server"],
        transcript.dialect,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    listener = Listener()
    listener.connected(cast("Link", PipeLink(child.stdin)))
    listening = asyncio.create_task(listen(child.stdout, listener))
    try:
        await speak(transcript, listener)
        child.stdin.close()
        assert await child.wait() == 0
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
        await listening


async def listen(pipe: asyncio.StreamReader, listener: Listener) -> None:
    async for line in pipe:
        assert line.endswith(b"\n")
        listener.received(line)
    listener.lost(None)


@pytest.mark.parametrize("transcript", SPOKEN, ids=lambda transcript: transcript.id)
def test_the_server_keeps_to_its_lines_over_pipes(transcript: Any) -> None:
    run_limited(over_stdio(transcript))


class WebListener(Listener):
    """What the links of ``webfaces`` need to know of a client."""

    modern = False

    def __init__(self, transcript: Transcript) -> None:
        super().__init__()
        self.revision = transcript.revision

    def received(self, message: bytes) -> None:
        super().received(bytes(message))


@asynccontextmanager
async def over_tcp(server: Server, listener: WebListener) -> AsyncIterator[Any]:
    async with lifespan(server.dispatcher):
        bound = await tcp.listen(server.dispatcher)
        yield await tcp.connect(listener, *bound.address[:2])
        await bound.close()


@asynccontextmanager
async def over_http(server: Server, listener: WebListener) -> AsyncIterator[Any]:
    async with served(server) as site:
        yield Posting(cast("Any", listener), site)


@asynccontextmanager
async def over_sse(server: Server, listener: WebListener) -> AsyncIterator[Any]:
    async with served(server) as site:
        pair = Pair(cast("Any", listener), site)
        await pair.open()
        yield pair


@asynccontextmanager
async def over_websocket(server: Server, listener: WebListener) -> AsyncIterator[Any]:
    async with (
        served(server) as site,
        connect(f"ws://127.0.0.1:{site.port}/mcp", subprotocols=["mcp"]) as socket,  # type: ignore[list-item]
    ):
        yield Socket(cast("Any", listener), socket)


Transport = Callable[[Server, WebListener], AbstractAsyncContextManager[Any]]
TRANSPORTS: dict[str, Transport] = {
    "tcp": over_tcp,
    "http": over_http,
    "sse": over_sse,
    "websocket": over_websocket,
}


NOT_HTTP = {"mcp_client/response_unknown"}
"""A response that answers nothing: HTTP refuses the POST, while the other transports drop the message."""
OVER_SOCKETS = [
    pytest.param(transcript, transport, id=f"{transcript.id}-{transport}")
    for transcript in SPOKEN
    for transport in TRANSPORTS
    if transport != "http" or transcript.id not in NOT_HTTP
]


@pytest.mark.parametrize(("transcript", "transport"), OVER_SOCKETS)
def test_the_server_keeps_to_its_lines_over_sockets(transcript: Transcript, transport: str) -> None:
    async def converse() -> None:
        server = fixture_servers.make(transcript.headers["server"], transcript.dialect)
        listener = WebListener(transcript)
        async with TRANSPORTS[transport](server, listener) as link:
            listener.connected(link)
            await speak(transcript, listener, ordered=transport != "http")
            link.close()
            await link.wait_closed()

    run_limited(converse())
