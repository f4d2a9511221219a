"""The limits that all connections share, on TCP and for batches."""

import asyncio
import json
from typing import Any

import pytest

from dovetail import Server
from dovetail.core.limits import UNCOUNTED_BYTES
from dovetail.settings import Limits
from dovetail.transports import tcp
from tests.support.aio import run
from tests.support.rawclient import MODERN, RawClient
from tests.support.waiting import until
from tests.support.web import modern, request

SIZE = 4 * UNCOUNTED_BYTES
LARGE = modern("tools/call", {"name": "wait", "arguments": {"text": "x" * SIZE}})


def build(**limits: Any) -> tuple[Server, asyncio.Event]:
    server, gate = Server("limits", limits=Limits(**limits)), asyncio.Event()

    @server.tool
    async def wait(text: str = "") -> int:
        await gate.wait()
        return len(text)

    @server.tool
    async def big(size: int) -> str:
        return "x" * size

    return server, gate


@run
async def test_a_large_message_on_tcp_counts_too() -> None:
    server, gate = build(max_buffered_bytes=2 * SIZE)
    listener = await tcp.listen(server.dispatcher)
    pairs = [await asyncio.open_connection(*listener.address, limit=1 << 20) for _ in range(2)]
    line = json.dumps(LARGE).encode() + b"\n"
    pairs[0][1].write(line)
    await until(lambda: server.dispatcher.admission.shared.buffered_bytes.in_use > 0)
    pairs[1][1].write(line)
    refused = json.loads(await pairs[1][0].readline())
    assert (refused["id"], refused["error"]["code"]) == (LARGE["id"], 1004)
    pairs[1][1].write(json.dumps(modern("tools/list")).encode() + b"\n")
    assert "result" in json.loads(await pairs[1][0].readline())
    gate.set()
    assert "result" in json.loads(await pairs[0][0].readline())
    await until(lambda: server.dispatcher.admission.shared.buffered_bytes.in_use == 0)
    for _, writer in pairs:
        writer.close()
    await listener.close()


@run
async def test_lines_that_do_not_end_are_counted_and_given_back() -> None:
    server, gate = build(max_buffered_bytes=3 * SIZE)
    gate.set()
    buffered = server.dispatcher.admission.shared.buffered_bytes
    listener = await tcp.listen(server.dispatcher)
    pairs = [await asyncio.open_connection(*listener.address, limit=1 << 20) for _ in range(3)]
    line = json.dumps(LARGE).encode()
    for _, writer in pairs[:2]:
        writer.write(line)
        await writer.drain()
    await until(lambda: buffered.in_use == 2 * len(line))
    pairs[2][1].write(line)
    refused = json.loads(await pairs[2][0].readline())
    assert (refused["error"]["code"], await pairs[2][0].read()) == (1004, b"")
    pairs[1][1].write(b"\n")
    assert json.loads(await pairs[1][0].readline())["id"] == LARGE["id"]
    await until(lambda: buffered.in_use == len(line))
    pairs[0][1].close()
    await until(lambda: buffered.in_use == 0)
    for _, writer in pairs:
        writer.close()
    await listener.close()


@pytest.mark.parametrize("limits", [{"max_message_bytes": 300_000}, {"max_buffered_bytes": 300_000}])
@run
async def test_the_responses_of_one_batch_are_bounded_together(limits: dict[str, int]) -> None:
    server, _ = build(**limits)
    calls = [request("tools/call", {"name": "big", "arguments": {"size": 40_000}}) for _ in range(9)]
    reply = await server.handle(json.dumps(calls).encode(), {"revision": "2025-03-26"})
    assert reply is not None
    answers = json.loads(reply)
    refused = [answer["error"]["code"] for answer in answers if "error" in answer]
    assert len(answers) == 9
    assert 1 < len(refused) < 9
    assert set(refused) == {1004}
    assert len(reply) < 310_000
    await until(lambda: server.dispatcher.admission.shared.buffered_bytes.in_use == 0)


@run
async def test_handlers_of_notifications_are_bounded() -> None:
    server, gate = build(max_requests_per_connection=2)
    heard, ended = list[int](), list[int]()

    async def note(params: dict[str, Any]) -> None:
        heard.append(params["number"])
        await gate.wait()
        ended.append(params["number"])

    server.add_notification("acme/note", note)
    listener = await tcp.listen(server.dispatcher)
    client = RawClient(MODERN)
    await tcp.connect(client, *listener.address)

    def say(number: int) -> None:
        message = {"jsonrpc": "2.0", "method": "acme/note", "params": {"number": number}}
        client.link.send(json.dumps(message).encode())

    for number in range(4):
        say(number)
    await client.request("tools/list")  # read after the notifications
    assert heard == [0, 1]
    gate.set()
    await until(lambda: ended == [0, 1])
    await client.request("tools/list")  # by then their tasks have ended, too
    say(4)
    await until(lambda: 4 in heard)
    await client.close()
    await listener.close()
