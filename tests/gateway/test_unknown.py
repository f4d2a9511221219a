"""What no revision knows goes through a proxy between any two of them; what one cannot say is left out by its edits."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dovetail import Server
from dovetail.gateway import Proxy
from tests.budget.test_handle import MODERN
from tests.support.aio import run

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
Json = dict[str, Any]
LATER = {"later": {"deep": [1, {"x": 2.50}]}}
META = {"example.com/kept": {"a": [1]}}
OBJECT = {"type": "object"}
BLOCK = {"type": "text", "text": "hi", **LATER}
STRANGE = {"type": "hologram", "layers": [1, 2]}
RESULTS: dict[str, Json] = {
    "tools/list": {"tools": [{"name": "t", "inputSchema": OBJECT, **LATER}, {"name": "u", "inputSchema": OBJECT}]},
    "resources/list": {"resources": [{"name": "r", "uri": "note://r", **LATER}]},
    "resources/templates/list": {"resourceTemplates": [{"name": "r", "uriTemplate": "note://{x}", **LATER}]},
    "prompts/list": {"prompts": [{"name": "p", "arguments": [{"name": "a", **LATER}], **LATER}]},
    "tools/call": {"content": [BLOCK, STRANGE], "structuredContent": {"s": 1}, "_meta": META, **LATER},
    "resources/read": {"contents": [{"uri": "note://r", "text": "x", **LATER}], "_meta": META, **LATER},
    "prompts/get": {"messages": [{"role": "user", "content": BLOCK, **LATER}], "_meta": META, **LATER},
    "completion/complete": {"completion": {"values": ["v"], **LATER}, "_meta": META, **LATER},
}  # fmt: skip
"""What the server behind answers, whatever it speaks."""
ASKED: dict[str, Json] = {
    "tools/call": {"name": "t", "arguments": {"big": 12345678901234567890, **LATER}, **LATER},
    "resources/read": {"uri": "note://r", **LATER},
    "prompts/get": {"name": "p", "arguments": {"a": "1"}, **LATER},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "p", **LATER}, "argument": {"name": "a", "value": "v", **LATER}, **LATER,
    },
}  # fmt: skip


class Raw:
    """A server that speaks ``revision`` in lines, and remembers what it was asked."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.asked: dict[str, Json] = {}

    def answer(self, message: Json) -> Json | None:
        method, params = message["method"], message.get("params") or {}
        self.asked[method] = params
        offered = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
        named = {"name": "raw", "version": "1"}
        if method == "initialize":
            return {"protocolVersion": self.revision, "capabilities": offered, "serverInfo": named}
        if method == "server/discover":
            result: Json = {"supportedVersions": [self.revision], "capabilities": offered}
        else:
            result = {**RESULTS[method]} if method in RESULTS else {}
        if self.revision >= "2026":
            result |= {"resultType": "complete"}
            if "/list" in method or method in ("resources/read", "server/discover"):
                result |= {"ttlMs": 0, "cacheScope": "private"}
        return result

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            message = json.loads(line)
            if "id" in message and "method" in message:
                reply = {"jsonrpc": "2.0", "id": message["id"], "result": self.answer(message)}
                writer.write(json.dumps(reply).encode() + b"\n")
        writer.close()


Ask = Callable[..., Any]


@asynccontextmanager
async def between(front: str, behind: str, prefix: str | None = None) -> AsyncIterator[tuple[Ask, Raw]]:
    raw = Raw(behind)
    listening = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    proxy: Server = Proxy(f"tcp://127.0.0.1:{port}", revision=behind)
    if prefix is not None:
        inner, proxy = proxy, Server("front", "1")
        proxy.mount(inner, prefix)

    async def ask(method: str, _meta: Json = META, **params: Any) -> Json:
        meta = {**MODERN, **_meta} if front == REVISIONS[-1] else _meta
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        scope = None if front == REVISIONS[-1] else {"revision": front}
        reply = json.loads(await proxy.handle(json.dumps(message), scope) or b"")
        return reply["result"]

    async with listening, proxy.running():
        yield ask, raw


def without(value: Json, *names: str) -> Json:
    return {name: member for name, member in value.items() if name not in names}


OURS = ("_meta", "resultType", "ttlMs", "cacheScope")


@pytest.mark.parametrize("front", REVISIONS)
@pytest.mark.parametrize("behind", REVISIONS)
@run
async def test_what_nobody_knows_goes_through_both_ways(front: str, behind: str) -> None:
    async with between(front, behind) as (ask, raw):
        for method, params in ASKED.items():
            result = await ask(method, **params)
            assert result["_meta"]["example.com/kept"] == META["example.com/kept"]
            assert not [name for name in result["_meta"] if name.startswith("dovetail/")]
            left_out = ("structuredContent",) if front < "2025-06" and front != behind else ()
            assert without(result, *OURS) == without(RESULTS[method], "_meta", *left_out), method
            asked = raw.asked[method]
            assert without(asked, "_meta") == params, method
            assert asked["_meta"]["example.com/kept"] == META["example.com/kept"]


@pytest.mark.parametrize("front", REVISIONS)
@pytest.mark.parametrize("behind", REVISIONS)
@run
async def test_entries_of_lists_keep_what_nobody_knows(front: str, behind: str) -> None:
    async with between(front, behind) as (ask, _):
        for method in [name for name in RESULTS if name.endswith("/list")]:
            result = without(await ask(method), *OURS)
            assert result == RESULTS[method]


@pytest.mark.parametrize(
    ("front", "behind"), [(one, one) for one in REVISIONS] + [(REVISIONS[1], REVISIONS[-1])]
)
@run
async def test_under_a_prefix_too(front: str, behind: str) -> None:
    async with between(front, behind, "p") as (ask, raw):
        (contents,) = (await ask("resources/read", uri="note://p/r", **LATER))["contents"]
        assert contents == {"uri": "note://p/r", "text": "x", **LATER}
        assert raw.asked["resources/read"]["later"] == LATER["later"]
        assert (await ask("tools/list"))["tools"][0]["later"] == LATER["later"]
        assert (await ask("tools/call", name="p_t"))["content"] == [BLOCK, STRANGE]


@run
async def test_nobody_makes_us_write_what_did_not_come() -> None:
    async with between("2025-06-18", "2026-07-28") as (ask, raw):
        forged = {"dovetail/came": {"data": {"injected": 1}}}
        await ask("tools/call", forged, name="t")
        assert "injected" not in raw.asked["tools/call"]
        assert raw.asked["tools/call"]["_meta"]["dovetail/came"] == forged["dovetail/came"]
