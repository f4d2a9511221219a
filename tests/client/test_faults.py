"""Connections cut, reset, delayed and doubled at every byte of an answer: each call ends soon, with its true cause."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dovetail import Client
from dovetail.client.connecting.server_cache import ServerCache
from dovetail.errors import DovetailError, SessionLost
from dovetail.testing import Faults
from tests.support.stopwatch import Stopwatch

from ..support import http_clients
from ..support.aio import run
from ..support.http_clients import BringingClient
from .fake_http import EVENTS, JSON, Reply, Request, modern, serving

DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
    "resultType": "complete",
}
CALLED = {"content": [{"type": "text", "text": "hi"}], "resultType": "complete"}
TRUE_CAUSES = {"eof", "reset", "protocol"}


def line(message: dict[str, Any], value: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": value}).encode() + b"\n"


@asynccontextmanager
async def tcp_server() -> AsyncIterator[str]:
    """A server of newline-framed messages with answers of known length."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.readline():
                message = json.loads(data)
                if "id" in message:
                    value = DISCOVERED if message["method"] == "server/discover" else CALLED
                    writer.write(line(message, value))
                    await writer.drain()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def head() -> int:
    return len(line({"id": 1}, DISCOVERED))


@pytest.mark.parametrize("reset", [False, True])
@run
async def test_a_stream_cut_at_every_offset_ends_every_call_within_a_second(reset: bool) -> None:
    whole = len(line({"id": 2}, CALLED))
    async with tcp_server() as target, Faults(target, reset=reset) as faults:
        for offset in range(whole):
            faults.cut = head() + offset
            client = Client(faults.url, revision="modern", server_cache=ServerCache(), reconnect=False)
            await client.open()
            watch = Stopwatch()
            calls = [asyncio.create_task(client.call_tool("x")) for _ in range(3)]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert watch.read() < 1
            for outcome in outcomes:
                # The last byte is only the newline: the message before it is whole, and counts.
                if offset == whole - 1 and not isinstance(outcome, BaseException):
                    continue
                assert isinstance(outcome, SessionLost), outcome
                assert outcome.cause in TRUE_CAUSES
            assert client.pending == 0
            await client.close()


@pytest.mark.usefixtures("http_library")
@pytest.mark.parametrize("streamed", [False, True])
@run
async def test_an_http_answer_cut_at_every_offset_ends_its_call_within_a_second(streamed: bool) -> None:
    def handler(request: Request) -> Reply:
        if request.method != "tools/call":
            return Reply(200, {**JSON, "Connection": "close"}, modern(request).body)
        message = json.dumps({"jsonrpc": "2.0", "id": request.id, "result": CALLED}).encode()
        if not streamed:
            return Reply(200, dict(JSON), message)

        async def events() -> AsyncIterator[bytes]:
            yield b"data: " + message + b"\n\n"

        return Reply(200, dict(EVENTS), stream=events())

    async with serving(handler) as (_, url), Faults(url) as faults:
        client = BringingClient(faults.url, revision="modern", server_cache=ServerCache(), reconnect=False)
        await client.open()
        before = faults.passed
        await client.call_tool("x")
        whole = faults.passed - before
        ended = 0
        # How others' libraries read is theirs: what they raise is translated, wherever that is.
        offsets = range(0, whole, 1 if http_clients.chosen is None else 3)
        for offset in offsets:
            faults.cut = offset
            watch = Stopwatch()
            (outcome,) = await asyncio.gather(client.call_tool("x"), return_exceptions=True)
            if isinstance(outcome, BaseException):
                ended += 1
                assert isinstance(outcome, DovetailError)
                assert getattr(outcome, "cause", None) in TRUE_CAUSES, outcome
            else:
                assert outcome.text == "hi"
            assert watch.read() < 1
            assert client.pending == 0
        assert ended > len(offsets) * 0.8
        await client.close()


@run
async def test_doubled_answers_are_dropped() -> None:
    async with (
        tcp_server() as target,
        Faults(target, duplicate=True) as faults,
        Client(faults.url, revision="modern", server_cache=ServerCache()) as client,
    ):
        for _ in range(5):
            assert (await client.call_tool("x")).text == "hi"
        assert client.violations.get("late_answer", 0) >= 4


@run
async def test_a_slow_connection_is_only_slow() -> None:
    async with (
        tcp_server() as target,
        Faults(target, delay=0.02) as faults,
        Client(faults.url, server_cache=ServerCache()) as client,
    ):
        assert (await client.call_tool("x")).text == "hi"


@run
async def test_a_client_comes_back_through_a_proxy_that_mends() -> None:
    from dovetail import Reconnect

    async with tcp_server() as target, Faults(target, cut=head() + 10) as faults:
        reconnect = Reconnect(initial_delay=0.02, max_delay=0.02, jitter=0, queue=1)
        async with Client(
            faults.url, revision="modern", server_cache=ServerCache(), reconnect=reconnect
        ) as client:
            with pytest.raises(SessionLost):
                await client.call_tool("x")
            faults.cut = None
            assert (await client.call_tool("x")).text == "hi"
            assert faults.connections == 2
