"""`Server.handle`: bytes in, bytes out, whatever they are."""

import json
from typing import Any

import pytest

from dovetail import Context, Limits, Server
from tests.server.weather import build
from tests.support.aio import run
from tests.support.peer import Peer

SHOUT: dict[str, Any] = {"name": "shout", "arguments": {"text": "grüße"}}
MODERN: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[]", -32600),
        (b"1", -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{}}}', -32602),
        (b"[" * 100_000, -32700),
        (b'{"a":' * 100_000, -32700),
    ],
)
@run
async def test_handle_answers_whatever_bytes_it_is_given(message: bytes, code: int) -> None:
    reply = await build().handle(message)
    assert reply is not None
    assert json.loads(reply)["error"]["code"] == code


@run
async def test_an_oversized_message_is_refused_before_it_is_read() -> None:
    reply = await build(limits=Limits(max_message_bytes=100)).handle(b" " * 101)
    assert reply is not None
    assert json.loads(reply)["error"]["data"]["maxSize"] == 100


@run
async def test_notifications_get_no_answer() -> None:
    server = build()
    assert await server.handle(b'{"jsonrpc":"2.0","method":"notifications/initialized"}') is None
    assert await server.handle(b'{"jsonrpc":"2.0","method":"notifications/whatever"}') is None


@run
async def test_a_batch_is_answered_as_a_batch_where_the_revision_has_them() -> None:
    server = build()
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "shout", "arguments": {"text": "a"}},
    }
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    batch = json.dumps([call, {**call, "id": 2, "method": "nope"}, note, 7]).encode()
    reply = await server.handle(batch, {"revision": "2025-03-26"})
    assert reply is not None
    answers = {answer.get("id"): answer for answer in json.loads(reply)}
    assert answers[1]["result"]["content"][0]["text"] == "A"
    assert answers[2]["error"]["code"] == -32601
    assert answers[None]["error"]["code"] == -32600
    only_notes = json.dumps([note]).encode()
    assert await server.handle(only_notes, {"revision": "2025-03-26"}) is None
    refused = await server.handle(batch, {"revision": "2025-06-18"})
    assert refused is not None
    assert json.loads(refused)["error"]["code"] == -32600
    await server.lifecycle.stop()


@run
async def test_a_message_may_be_text_as_well_as_bytes() -> None:
    server = build()
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": SHOUT}
    for text in (json.dumps(message), json.dumps(message, ensure_ascii=False)):
        in_bytes = await server.handle(text.encode(), {"revision": "2025-06-18"})
        assert await server.handle(text, {"revision": "2025-06-18"}) == in_bytes
        assert in_bytes is not None
        assert json.loads(in_bytes)["result"]["content"][0]["text"] == "GRÜSSE"
    reply = await server.handle("\ud800")  # no encoding has a lone surrogate
    assert reply is not None
    assert json.loads(reply)["error"]["code"] == -32700
    await server.lifecycle.stop()


@run
async def test_a_batch_holds_neither_modern_requests_nor_initialize_nor_one_id_twice() -> None:
    server = build()
    legacy = {"jsonrpc": "2.0", "method": "tools/call", "params": SHOUT}
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}}
    batch = [
        {**legacy, "id": 1},
        {**legacy, "id": 1},
        {**legacy, "id": 2, "params": {**SHOUT, "_meta": MODERN}},
        {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": hello},
    ]
    reply = await server.handle(json.dumps(batch), {"revision": "2025-03-26"})
    assert reply is not None
    answers = json.loads(reply)
    assert [answer["id"] for answer in answers if "result" in answer] == [1]
    refused = {answer["id"]: answer["error"] for answer in answers if "error" in answer}
    assert {id: error["code"] for id, error in refused.items()} == {1: -32600, 2: -32600, 3: -32600}
    assert "still in flight" in refused[1]["message"]
    assert "does not support batches" in refused[2]["message"]
    await server.lifecycle.stop()


@run
async def test_a_batch_has_no_more_messages_than_the_limits_allow() -> None:
    server = build(limits=Limits(max_batch_size=2))
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    reply = await server.handle(
        json.dumps([{**ping, "id": id} for id in range(3)]), {"revision": "2025-03-26"}
    )
    assert reply is not None
    assert json.loads(reply)["error"]["code"] == -32600


@run
async def test_scope_reaches_the_handler_and_names_the_principal() -> None:
    server = Server("x", "1")

    @server.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.principal} {ctx.scope['shard']} {ctx.revision} {ctx.client_info}"

    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "who"}}
    reply = await server.handle(
        json.dumps(message).encode(), {"revision": "2025-06-18", "principal": "ann", "shard": 7}
    )
    assert reply is not None
    assert json.loads(reply)["result"]["content"][0]["text"] == "ann 7 2025-06-18 None"


@run
async def test_layers_wrap_everything_methods_of_ones_own_too() -> None:
    seen: list[str] = []

    def middleware(call_next: Any) -> Any:
        async def wrapped(request: Any) -> Any:
            seen.append(request.call.method)
            return await call_next(request)

        return wrapped

    server = build(middleware=[middleware])
    server.add_method("acme/count", lambda params: {"count": len(seen)})
    assert await Peer(server).text("shout", text="a") == "A"
    assert (await Peer(server).result("acme/count"))["count"] == 2
    assert seen == ["tools/call", "acme/count"]
    await server.lifecycle.stop()
