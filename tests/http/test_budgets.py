"""What all peers together may hold: the newest is refused, and those who ask for little never notice."""

import asyncio
import json
from typing import Any

import pytest

from dovetail import Server
from dovetail.settings import CALLS_FREE, SMALL_MESSAGE, Limits
from dovetail.transports import tcp
from tests.support.aio import run
from tests.support.waiting import until
from tests.support.web import Site, Web, legacy_headers, modern, modern_headers, request, served

ON = ("granian", "granian-asgi", "uvicorn", "asyncio")
SIZE = 4 * SMALL_MESSAGE


def build(**limits: Any) -> tuple[Server, asyncio.Event]:
    server, gate = Server("budgets", limits=Limits(**limits)), asyncio.Event()

    @server.tool
    async def wait(text: str = "") -> int:
        await gate.wait()
        return len(text)

    @server.tool
    async def big(size: int) -> str:
        return "x" * size

    @server.resource("thing://{name}")
    def thing(name: str) -> str:
        return name

    return server, gate


def post(message: dict[str, Any], **headers: str) -> bytes:
    body = json.dumps(message).encode()
    lines = {
        "Host": "127.0.0.1",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **modern_headers(message),
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


async def opened(site: Site) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", site.port)


LARGE = modern("tools/call", {"name": "wait", "arguments": {"text": "x" * SIZE}})


@run
async def test_bodies_that_do_not_end_are_counted_and_given_back() -> None:
    server, gate = build(max_buffered_bytes=2 * SIZE)
    gate.set()
    account = server.admission.budget.messages
    async with served(server) as site:
        _, writer = await opened(site)
        writer.write(post(LARGE)[:-10])
        await until(lambda: account.taken > 0)
        reader, other = await opened(site)
        other.write(post(LARGE)[:-10])
        assert b" 503 " in await reader.readline()
        assert "result" in (await Web(site).modern("tools/list")).message
        writer.close()
        other.close()
        await until(lambda: account.taken == 0)
        assert (await Web(site).modern("tools/call", LARGE["params"])).status == 200


@run
async def test_a_body_in_chunks_is_counted_as_it_comes() -> None:
    server, _ = build(max_buffered_bytes=SIZE)
    async with served(server) as site:
        reader, writer = await opened(site)
        whole = post(LARGE, **{"Content-Length": "", "Transfer-Encoding": "chunked"})
        head, body = whole.split(b"\r\n\r\n", 1)
        writer.write(head + b"\r\n\r\n%x\r\n" % (len(body) + SIZE) + body + b" " * SIZE)
        assert b" 503 " in await reader.readline()
        writer.close()
        await until(lambda: server.admission.budget.messages.taken == 0)


@run
async def test_a_large_message_counts_for_as_long_as_its_call_runs() -> None:
    server, gate = build(max_buffered_bytes=2 * SIZE)
    async with served(server) as site:
        reader, writer = await opened(site)
        writer.write(post(LARGE))
        await until(lambda: server.admission.budget.messages.taken > 0)
        refused = await Web(site).modern("tools/call", LARGE["params"])
        assert (refused.status, refused.message["error"]["code"]) == (503, 1004)
        assert refused.headers["retry-after"] == "5"
        gate.set()
        assert b" 200 " in await reader.readline()
        await until(lambda: server.admission.budget.messages.taken == 0)
        writer.close()


@pytest.mark.anywhere
@run
async def test_a_large_message_on_tcp_counts_too() -> None:
    server, gate = build(max_buffered_bytes=2 * SIZE)
    listener = await tcp.listen(server)
    pairs = [await asyncio.open_connection(*listener.address, limit=1 << 20) for _ in range(2)]
    line = json.dumps(LARGE).encode() + b"\n"
    pairs[0][1].write(line)
    await until(lambda: server.admission.budget.messages.taken > 0)
    pairs[1][1].write(line)
    refused = json.loads(await pairs[1][0].readline())
    assert (refused["id"], refused["error"]["code"]) == (LARGE["id"], 1004)
    pairs[1][1].write(json.dumps(modern("tools/list")).encode() + b"\n")
    assert "result" in json.loads(await pairs[1][0].readline())
    gate.set()
    assert "result" in json.loads(await pairs[0][0].readline())
    await until(lambda: server.admission.budget.messages.taken == 0)
    for _, writer in pairs:
        writer.close()
    await listener.close()


@pytest.mark.anywhere
@run
async def test_lines_that_do_not_end_are_counted_and_given_back() -> None:
    server, gate = build(max_buffered_bytes=3 * SIZE)
    gate.set()
    account = server.admission.budget.unfinished
    listener = await tcp.listen(server)
    pairs = [await asyncio.open_connection(*listener.address, limit=1 << 20) for _ in range(3)]
    line = json.dumps(LARGE).encode()
    for _, writer in pairs[:2]:
        writer.write(line)
        await writer.drain()
    await until(lambda: account.taken == 2 * len(line))
    pairs[2][1].write(line)
    refused = json.loads(await pairs[2][0].readline())
    assert (refused["error"]["code"], await pairs[2][0].read()) == (1004, b"")
    pairs[1][1].write(b"\n")
    assert json.loads(await pairs[1][0].readline())["id"] == LARGE["id"]
    assert account.taken == len(line)
    pairs[0][1].close()
    await until(lambda: account.taken == 0)
    for _, writer in pairs:
        writer.close()
    await listener.close()


@pytest.mark.anywhere
@pytest.mark.parametrize("limits", [{"max_message_bytes": 300_000}, {"max_buffered_bytes": 300_000}])
@run
async def test_the_answers_of_one_array_are_bounded_together(limits: dict[str, int]) -> None:
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
    await until(lambda: server.admission.budget.answers.taken == 0)


@run
async def test_arrays_of_all_sessions_have_only_so_many_calls_under_way() -> None:
    server, gate = build(max_concurrent_requests=100)
    begun = list[str]()

    @server.tool
    async def wait_here() -> None:
        begun.append("")
        await gate.wait()

    calls = [request("tools/call", {"name": "wait_here", "arguments": {}}) for _ in range(CALLS_FREE + 100)]
    array = json.dumps(calls).encode()
    async with served(server) as site:
        web = Web(site)
        first, second = [(await web.initialize("2025-03-26"))[0] for _ in range(2)]
        waiting = asyncio.create_task(web.ask("POST", legacy_headers("2025-03-26", first), array))
        await until(lambda: len(begun) == len(calls))
        refused = await web.ask("POST", legacy_headers("2025-03-26", second), array)
        assert (refused.status, json.loads(refused.body)["error"]["code"]) == (503, 1004)
        assert (await web.legacy("2025-03-26", second, "ping", {})).status == 200
        gate.set()
        assert len(json.loads((await waiting).body)) == len(calls)
        again = await web.ask("POST", legacy_headers("2025-03-26", second), array)
        assert len(json.loads(again.body)) == len(calls)


@run
async def test_addresses_have_a_total_and_unsubscribing_gives_them_back() -> None:
    server, _ = build(all_addresses=10_000)
    async with served(server) as site:
        web = Web(site)
        sessions = [(await web.initialize("2025-11-25"))[0] for _ in range(2)]
        uri = {"uri": "thing://" + "x" * 6000}

        async def ask(session: str, method: str) -> dict[str, Any]:
            return (await web.legacy("2025-11-25", session, method, uri)).message

        assert "result" in await ask(sessions[0], "resources/subscribe")
        assert (await ask(sessions[1], "resources/subscribe"))["error"]["code"] == 1004
        assert "result" in await ask(sessions[0], "resources/subscribe")  # once more is still once
        assert "result" in await ask(sessions[0], "resources/unsubscribe")
        assert "result" in await ask(sessions[1], "resources/subscribe")


@pytest.mark.parametrize("era", ["modern", "legacy"])
@run
async def test_one_client_cannot_have_all_handlers_of_notifications(era: str) -> None:
    server, gate = build(max_requests_per_connection=4)
    heard = list[int]()

    async def note(params: dict[str, Any]) -> None:
        heard.append(params["number"])
        await gate.wait()

    server.add_notification("acme/note", note)
    async with served(server) as site:
        sessions = (
            [(await Web(site).initialize("2025-11-25"))[0] for _ in range(2)] if era == "legacy" else []
        )

        async def say(who: int, number: int) -> None:
            message: dict[str, Any] = {"jsonrpc": "2.0", "method": "acme/note", "params": {"number": number}}
            headers = legacy_headers("2025-11-25", sessions[who]) if sessions else modern_headers(message)
            connection = await site.connect(local_addr=(f"127.0.0.{who + 1}", 0))
            found = await connection.ask("POST", "/mcp", headers, json.dumps(message).encode())
            assert found.status == 202

        for number in range(6):
            await say(0, number)
        await say(1, 6)
        await until(lambda: 6 in heard)
        assert heard == [0, 1, 6]
        gate.set()
        await say(0, 7)
        await until(lambda: 7 in heard)
