"""Servers that send much for little: whatever comes, the event loop keeps turning and what it costs is bounded."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dovetail import Client
from dovetail.client.connecting.server_cache import ServerCache
from dovetail.errors import DovetailError, ProtocolError, TransportError
from dovetail.wire.headers import cached_routing_headers

from ..support.aio import run
from ..support.stopwatch import Stopwatch
from ..support.waiting import HANG
from .fake_http import DISCOVERED, EVENTS, JSON, Reply, Request, modern, serving
from .fake_http import result as reply_to
from .scripted import Peer, Scripted, legacy, text
from .scripted import modern as scripted

STALL = 0.5
"""Seconds for which the loop may stand still; all that is tested here took seconds or minutes.

Those in which others had the cores do not count, and no more than we have worked meanwhile."""


@asynccontextmanager
async def turning() -> AsyncIterator[None]:
    """The loop turns all the time inside."""
    loop, longest = asyncio.get_running_loop(), 0.0
    watch, worked = Stopwatch(), time.process_time()

    def look() -> None:
        nonlocal longest, watch, worked, again
        longest = max(longest, min(watch.read(), time.process_time() - worked))
        watch, worked = Stopwatch(), time.process_time()
        again = loop.call_later(0.001, look)

    again = loop.call_soon(look)
    try:
        yield
    finally:
        look()
        again.cancel()
    assert longest < STALL, f"the loop stood still for {longest:.2f} s"


def on_call(reply: Reply) -> Any:
    return lambda request: reply if request.method == "tools/call" else modern(request)


def event(message: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(message).encode() + b"\n\n"


LINES = {
    "newlines": b"\n",
    "comments": b":\n",
    "empty events": b"data:\n\n",
    "events that are no messages": b"data: {}\n\n",
}


@pytest.mark.parametrize("what", LINES)
@run
async def test_a_packed_event_stream_of_next_to_nothing_does_not_stop_the_loop(what: str) -> None:
    async def stream() -> AsyncIterator[bytes]:
        yield gzip.compress(LINES[what] * ((1 << 19) // len(LINES[what])))

    reply = Reply(200, {**EVENTS, "Content-Encoding": "gzip"}, stream=stream())
    async with serving(on_call(reply)) as (_, url), Client(url, server_cache=ServerCache()) as client:
        async with turning():
            with pytest.raises(DovetailError):
                await client.call_tool("x", timeout=HANG)
        assert client.pending == 0


@pytest.mark.parametrize("kind", [EVENTS, JSON])
@run
async def test_a_body_that_grows_beyond_measure_when_it_is_unpacked_is_refused(kind: dict[str, str]) -> None:
    reply = Reply(200, {**kind, "Content-Encoding": "gzip"}, gzip.compress(b" " * (12 << 20)))
    async with serving(on_call(reply)) as (_, url), Client(url, server_cache=ServerCache()) as client:
        async with turning():
            with pytest.raises(TransportError, match="more than 200 times its size") as caught:
                await client.call_tool("x", timeout=HANG)
        assert caught.value.cause == "protocol"


@run
async def test_what_is_merely_repetitive_is_unpacked() -> None:
    words = "the same line again and again, as in a log\n" * 90_000
    answer = {"jsonrpc": "2.0", "result": text(words, resultType="complete")}

    def handler(request: Request) -> Reply:
        if request.method != "tools/call":
            return modern(request)
        body = gzip.compress(json.dumps({**answer, "id": request.id}).encode())
        return Reply(200, {**JSON, "Content-Encoding": "gzip"}, body)

    async with serving(handler) as (_, url), Client(url, server_cache=ServerCache()) as client:
        assert (await client.call_tool("x")).text == words


def tool(schema: Any, structured: Any) -> Scripted:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        base = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        if message["method"] == "tools/list":
            listed = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}
            peer.result(message, {"tools": [listed], **base})
        else:
            peer.result(message, text("x", resultType="complete", structuredContent=structured))

    return scripted(answer)


def doubling(levels: int) -> dict[str, Any]:
    """Each definition refers to the next one twice."""
    definitions: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)
    }
    definitions[f"d{levels}"] = {"type": "string"}
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": definitions}


HARD: dict[str, tuple[Any, Any]] = {
    "references that double": (doubling(40), {}),
    "a large schema": (
        {"type": "object", "properties": {f"p{n}": {"type": "string", "enum": ["a"]} for n in range(1800)}},
        {f"p{n}": "b" for n in range(1800)},
    ),
    "a large value": (
        {"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}}},
        {"n": list(range(200_000))},
    ),
}


@pytest.mark.parametrize("what", HARD)
@run
async def test_checking_a_result_does_not_stop_the_loop(what: str, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("jsonschema_rs")
    caplog.set_level(logging.CRITICAL)
    async with Client(tool(*HARD[what])) as client:
        await client.list_tools()
        async with turning():
            for _ in range(2):
                await client.call_tool("t", timeout=HANG)


@run
async def test_long_names_sent_to_a_gateway_are_not_stored() -> None:
    async with serving(modern) as (server, url), Client(url, server_cache=ServerCache()) as client:
        await client.call_tool("echo")
        before = cached_routing_headers.cache_info().currsize
        for number in range(3):
            await client.call_tool(f"{number}{'x' * 1000}")
        assert cached_routing_headers.cache_info().currsize == before
        assert server.requests[-1].headers["mcp-name"] == f"2{'x' * 1000}"


@run
async def test_nothing_is_fetched_because_a_list_names_it() -> None:
    """Icons, links and references of a server are displayed or refused; Dovetail does not fetch them."""

    def tempting(request: Request) -> Reply:
        if request.method != "tools/list":
            return modern(request)
        there = f"http://{request.headers['host']}"
        tool = {
            "name": "echo",
            "icons": [{"src": f"{there}/icon.png"}],
            "inputSchema": {"type": "object", "$schema": f"{there}/schema", "$ref": f"{there}/input"},
            "_meta": {"ui": {"resourceUri": f"{there}/app"}},
        }
        found = {"tools": [tool], "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        return Reply(
            200, JSON, json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": found}).encode()
        )

    async with serving(tempting) as (server, url), Client(url) as client:
        assert [tool.name for tool in await client.list_tools()] == ["echo"]
        await client.call_tool("echo", {"text": "x"})
        assert {request.path for request in server.requests} == {"/mcp"}


@run
async def test_too_many_input_requests_are_refused_together() -> None:
    form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    question = {"method": "elicitation/create", "params": form}
    asked = 0

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        many = {str(number): question for number in range(1001)}
        peer.result(message, {"resultType": "input_required", "inputRequests": many})

    async def on_elicit(_: Any) -> str:
        nonlocal asked
        asked += 1
        return "accept"

    async with Client(scripted(answer), on_elicit=on_elicit) as client:
        with pytest.raises(ProtocolError, match="1001 questions at once"):
            await client.call_tool("x")
    assert asked == 0


# --- long lists -----------------------------------------------------------------------------------------------------

SMALL_TOOL = b'{"name":"%d","inputSchema":{}}'
DEEP_TOOL = b'{"name":"%d","inputSchema":' + b'{"a":' * 50 + b"1" + b"}" * 50 + b"}"
PAGE = b'"resultType":"complete","ttlMs":60000,"cacheScope":"private"'


def listing(method: str, result: bytes) -> Any:
    def handler(request: Request) -> Reply:
        if request.method == "server/discover":
            offered = {"tools": {}, "resources": {}, "prompts": {}}
            return reply_to(request, {**DISCOVERED, "capabilities": offered, "resultType": "complete"})
        if request.method != method:
            return modern(request)
        return Reply(200, JSON, b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (request.id, result))

    return handler


@pytest.mark.parametrize("what", [SMALL_TOOL, DEEP_TOOL], ids=["small", "deep"])
@run
async def test_a_list_of_very_many_tools_is_read_and_read_again_from_the_cache(what: bytes) -> None:
    count = (6 << 20) // len(what)
    tools = b",".join(what % number for number in range(count))
    handler = listing("tools/list", b'{%b,"_meta":{"tools":[]},"tools":[%b]}' % (PAGE, tools))
    async with serving(handler) as (server, url), Client(url, server_cache=ServerCache()) as client:
        first = await client.list_tools()
        second = await client.list_tools()
        assert [tool.name for tool in first] == [str(number) for number in range(count)]
        assert first == second
        assert server.heard().count("tools/list") == 1
        assert first[-1].input_schema == json.loads(what % 1)["inputSchema"]


@run
async def test_headers_of_arguments_are_found_among_very_many_tools() -> None:
    plain = b",".join(SMALL_TOOL % number for number in range(20_000))
    city = {"type": "string", "x-mcp-header": "City"}
    good = {"name": "good", "inputSchema": {"type": "object", "properties": {"city": city}}}
    bad = {"name": "bad", "inputSchema": {"type": "object", "items": city}}
    tools = b",".join([plain, json.dumps(good).encode(), json.dumps(bad).encode()])
    handler = listing("tools/list", b'{%b,"tools":[%b]}' % (PAGE, tools))
    async with serving(handler) as (server, url), Client(url, server_cache=ServerCache()) as client:
        names = {tool.name for tool in await client.list_tools()}
        assert "good" in names
        assert "bad" not in names
        await client.call_tool("good", {"city": "Oslo"})
        assert server.requests[-1].headers["mcp-param-city"] == "Oslo"


MALFORMED = {
    "nothing but empty objects": b",".join([b"{}"] * 1_500_000),
    "nothing but numbers": b",".join([b"0"] * 2_000_000),
    "one at the end": b",".join([SMALL_TOOL % 1] * 100_000) + b",0",
    "one without a name at the end": b",".join([SMALL_TOOL % 1] * 100_000) + b",{}",
}


@pytest.mark.parametrize("what", MALFORMED)
@run
async def test_a_very_long_list_with_malformed_entries_is_refused(what: str) -> None:
    handler = listing("tools/list", b'{%b,"tools":[%b]}' % (PAGE, MALFORMED[what]))
    async with serving(handler) as (_, url), Client(url, server_cache=ServerCache()) as client:
        with pytest.raises(ProtocolError, match="malformed") as caught:
            await client.list_tools()
        assert caught.value.kind == "validation_failed"


@run
async def test_one_block_of_an_unknown_type_does_not_affect_the_others() -> None:
    blocks = [b'{"type":"text","text":"%d"}' % number for number in range(8_000)]
    blocks[777] = b'{"type":"hologram","size":3}'
    handler = listing("tools/call", b'{"resultType":"complete","content":[%b]}' % b", ".join(blocks))
    async with serving(handler) as (_, url), Client(url, server_cache=ServerCache()) as client:
        content = (await client.call_tool("x")).content
        assert len(content) == 8_000
        assert content[776].text == "776"
        assert json.loads(content[777].text) == {"type": "hologram", "size": 3}


@pytest.mark.parametrize("cancelled", [True, False])
@run
async def test_a_finished_server_request_does_not_delay_shutdown(cancelled: bool) -> None:
    def ask(peer: Peer, message: dict[str, Any]) -> None:
        peer.say({"jsonrpc": "2.0", "id": 7, "method": "roots/list"})
        if cancelled:
            peer.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
            peer.result(message, {})
        else:
            peer.drop()

    client = Client(legacy(ask), on_roots=list, reconnect=False)
    await client.open()
    if cancelled:
        await client.ping()
    else:
        with pytest.raises(TransportError):
            await client.ping()
    async with asyncio.timeout(HANG):
        await client.close()
