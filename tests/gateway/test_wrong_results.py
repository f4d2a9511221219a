"""What clients get when the upstream server of a proxy sends results of the wrong shape, or none."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dovetail import Client, Refusal
from dovetail.gateway import Proxy
from dovetail.settings import Timeouts
from tests.support.aio import run
from tests.support.peer import LEGACY, MODERN

OFFERED: dict[str, Any] = {"tools": {}}
INFO = {"name": "wrong", "version": "1"}
TEXT = {"type": "text", "text": "ok"}


class Upstream:
    """A server of ``revision`` that answers each call of a tool with ``result``; None: it answers nothing at all."""

    def __init__(self, revision: str, result: Any) -> None:
        self.revision, self.result = revision, result

    def _answer(self, message: Any) -> Any:
        modern: dict[str, Any] = (
            {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if self.revision == MODERN else {}
        )
        match message["method"]:
            case "server/discover" if modern:
                return {
                    "supportedVersions": [self.revision],
                    "capabilities": OFFERED,
                    "serverInfo": INFO,
                    **modern,
                }
            case "initialize":
                return {"protocolVersion": self.revision, "capabilities": OFFERED, "serverInfo": INFO}
            case "tools/list":
                return {"tools": [{"name": "work", "inputSchema": {"type": "object"}}], **modern}
            case _:
                found: Any = self.result
                return (
                    found if not modern or not isinstance(found, dict) else found | {"resultType": "complete"}
                )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            message = json.loads(line)
            if "id" in message and self.result is not None:
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": self._answer(message)}
                writer.write(json.dumps(answer).encode() + b"\n")
        writer.close()


@asynccontextmanager
async def proxied(revision: str, result: Any, **options: Any) -> AsyncGenerator[Proxy]:
    async with await asyncio.start_server(Upstream(revision, result).serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield Proxy(f"tcp://127.0.0.1:{port}", revision=revision, **options)


@pytest.mark.parametrize("front", [*LEGACY, MODERN])
@pytest.mark.parametrize("back", ["2024-11-05", "2025-11-25", MODERN])
@pytest.mark.parametrize(
    "result",
    [
        {"content": 5},
        {"content": [5]},
        {},
        [],
        "x",
        {"content": [{"type": "text"}]},
        {"content": [TEXT], "isError": 1},
    ],
    ids=repr,
)
@run
async def test_a_result_of_the_wrong_shape_is_an_error_of_the_upstream_server(
    front: str, back: str, result: Any
) -> None:
    async with proxied(back, result) as proxy, Client(proxy, revision=front) as client:
        with pytest.raises(Refusal, match="malformed response") as caught:
            await client.call_tool("work")
        assert caught.value.kind == "dependency_failed"


@pytest.mark.parametrize("front", LEGACY)
@run
async def test_metadata_of_2026_07_28_does_not_reach_legacy_clients(front: str) -> None:
    meta = {"io.modelcontextprotocol/serverInfo": INFO, "example.com/mine": 1}
    async with (
        proxied(MODERN, {"content": [TEXT], "_meta": meta}) as proxy,
        Client(proxy, revision=front) as client,
    ):
        result = await client.call_tool("work")
    assert (result.text, result.raw.meta) == ("ok", {"example.com/mine": 1})


@pytest.mark.parametrize("front", ["2024-11-05", "2025-11-25", MODERN])
@run
async def test_a_server_that_answers_nothing_ends_in_an_error_in_time(front: str) -> None:
    timeouts = Timeouts(connect=0.5, idle=0.5, total=0.5)
    async with (
        proxied("2025-11-25", None, timeouts=timeouts) as proxy,
        Client(proxy, revision=front) as client,
    ):
        with pytest.raises(Refusal, match="cannot be reached"):
            await client.call_tool("work")
