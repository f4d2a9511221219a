"""Any peer that can reach a port may send anything: other protocols are never executed, and cost little."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Server
from dovetail.core.admit import MAX_INITIALIZE_BYTES
from dovetail.core.phases import MAX_CAPABILITIES_BYTES
from dovetail.drivers.duplex import MAX_INVALID_MESSAGES
from dovetail.transports import tcp
from tests.support.aio import run
from tests.support.waiting import HANG

Json = dict[str, Any]
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALL: Json = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "mark", "arguments": {}, "_meta": MODERN},
}
INNER = json.dumps(CALL).encode() + b"\n"


class Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, message: Json | bytes) -> Json:
        self.writer.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        return json.loads(await self.reader.readline())

    async def ended(self) -> None:
        """Return when the server has hung up."""
        try:
            async with asyncio.timeout(HANG):
                while await self.reader.read(1 << 16):
                    pass
        except ConnectionError:
            pass


@asynccontextmanager
async def connected(marks: list[str], path: Path | None = None) -> AsyncIterator[Wire]:
    server = Server("strangers")

    @server.tool
    async def mark() -> str:
        marks.append("ran")
        return "marked"

    listener = await tcp.listen(server.dispatcher, path=None if path is None else str(path))
    address = listener.address
    pair = (
        asyncio.open_unix_connection(address)
        if isinstance(address, str)
        else asyncio.open_connection(*address)
    )
    wire = Wire(*await pair)
    try:
        yield wire
    finally:
        wire.writer.transport.abort()
        await listener.close()


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n\r\n",
        b"GET /" + INNER.rstrip() + b" HTTP/1.1\r\n\r\n",
        b"\r\nPOST / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\n",
        b"   \n",
        b'{"x": 1}\n',
        b"[1, 2]\n",
        b"{\n",
    ],
)
@pytest.mark.parametrize("unix", [False, True])
@run
async def test_a_connection_that_starts_with_another_protocol_is_closed_and_runs_nothing(
    head: bytes, unix: bool, tmp_path: Path
) -> None:
    marks: list[str] = []
    async with connected(marks, tmp_path / "socket" if unix else None) as wire:
        wire.writer.write(head + INNER * 3)
        await wire.ended()
    assert marks == []


@run
async def test_a_peer_that_began_well_may_be_wrong_a_few_times() -> None:
    marks: list[str] = []
    async with connected(marks) as wire:
        assert "result" in await wire.ask(CALL)
        for _ in range(MAX_INVALID_MESSAGES):
            assert "error" in await wire.ask(b"rubbish\n")
        assert "result" in await wire.ask(CALL)
        wire.writer.write(b"rubbish\n" + INNER)
        await wire.ended()
    assert len(marks) == 2


def initialize(capabilities: Json, **info: Any) -> Json:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "clientInfo": {"name": "client", "version": "1", **info},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


@run
async def test_an_introduction_of_megabytes_is_refused_and_a_smaller_one_may_follow() -> None:
    async with connected([]) as wire:
        for heavy in (
            initialize({}, title="x" * MAX_INITIALIZE_BYTES),
            initialize({"experimental": {"x": {"y": "x" * MAX_CAPABILITIES_BYTES}}}),
        ):
            answer = await wire.ask(heavy)
            assert answer["error"]["code"] == -32602
            assert "exceed" in answer["error"]["message"]
        assert "result" in await wire.ask(initialize({}, title="x" * 10_000))


@run
async def test_only_the_names_of_a_long_description_are_kept() -> None:
    server = Server("names")
    seen: list[Any] = []
    server.dispatcher.session_opened = lambda session: seen.append(session.client_info)  # type: ignore[method-assign]
    listener = await tcp.listen(server.dispatcher)
    wire = Wire(*await asyncio.open_connection(*listener.address))
    await wire.ask(initialize({}, websiteUrl="http://x/" + "y" * 10_000, title="x" * 1000))
    wire.writer.transport.abort()
    await listener.close()
    assert seen == [{"name": "client", "version": "1", "title": "x" * 200}]
