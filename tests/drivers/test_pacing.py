"""What one peer brings at once is done in turns: others are served in between."""

import asyncio
import json
import time
from collections.abc import Generator
from itertools import pairwise
from typing import Any

import pytest

from dovetail import Server
from dovetail.core.batch import Batch
from dovetail.drivers.pacing import in_turns, poured, stepwise, turn
from dovetail.settings import AT_ONCE, LONG_PIECE, PIECES_AT_ONCE, Limits
from dovetail.transports import tcp
from dovetail.wire.frames import encode_batch
from dovetail.wire.long_results import Pieces
from tests.support.aio import run
from tests.support.web import Web, legacy_headers, modern, request, served

CALLS = 300
WORK = 0.003


def build(**limits: Any) -> tuple[Server, list[int]]:
    server, begun = Server("pacing", limits=Limits(**limits)), list[int]()

    @server.tool
    async def work(number: int) -> str:
        begun.append(number)
        end = time.perf_counter() + WORK
        while time.perf_counter() < end:  # a handler that keeps the loop for a while
            pass
        return "x" * 1000

    return server, begun


def array() -> bytes:
    calls = [request("tools/call", {"name": "work", "arguments": {"number": n}}) for n in range(CALLS)]
    return json.dumps(calls).encode()


async def most_in_one_turn(begun: list[int]) -> int:
    """How many calls have begun between two looks of somebody else, at most."""
    seen = [0]
    while seen[-1] < CALLS:
        await asyncio.sleep(0)
        seen.append(len(begun))
    # The first ones tell how long one takes.
    return max(after - before for before, after in pairwise(seen) if before > AT_ONCE)


@run
async def test_a_long_array_over_http_leaves_turns_to_others() -> None:
    server, begun = build()
    async with served(server) as site:
        web = Web(site)
        session, _ = await web.initialize("2025-03-26")
        looking = asyncio.create_task(most_in_one_turn(begun))
        found = await web.ask("POST", legacy_headers("2025-03-26", session), array())
        assert len(json.loads(found.body)) == CALLS
        assert await looking <= AT_ONCE


@run
async def test_arrays_that_have_had_their_time_leave_most_of_it_to_others() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    between: list[int] = []
    beside = asyncio.create_task(others())
    async for _ in in_turns(range(150)):
        between.append(turns)
        turns = 0
        end = time.perf_counter() + WORK
        while time.perf_counter() < end:
            pass
    beside.cancel()
    assert sorted(between[-50:])[10] > 5


@run
async def test_a_long_array_over_tcp_leaves_turns_to_others() -> None:
    server, begun = build()
    listener = await tcp.listen(server)
    reader, writer = await asyncio.open_connection(*listener.address, limit=1 << 24)
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    writer.write(json.dumps(request("initialize", hello)).encode() + b"\n")
    await reader.readline()
    writer.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    looking = asyncio.create_task(most_in_one_turn(begun))
    writer.write(array() + b"\n")
    assert len(json.loads(await reader.readline())) == CALLS
    assert await looking <= AT_ONCE
    writer.close()
    await listener.close()


@run
async def test_an_array_whose_answers_have_no_room_runs_no_further() -> None:
    server, begun = build(max_message_bytes=64_000)
    async with served(server) as site:
        web = Web(site)
        session, _ = await web.initialize("2025-03-26")
        found = await web.ask("POST", legacy_headers("2025-03-26", session), array())
        answers = json.loads(found.body)
        refused = [one for one in answers if "error" in one]
        assert {one["error"]["code"] for one in refused} == {1004}
        assert len(answers) == CALLS
        assert len(begun) < CALLS - len(refused) + 2 * AT_ONCE


@pytest.mark.parametrize("count", [0, 1, AT_ONCE, AT_ONCE + 1, 1000])
def test_nothing_is_lost_between_turns(count: int) -> None:
    @run
    async def scenario() -> None:
        items = list(range(count))
        assert [one async for some in in_turns(items) for one in some] == items

    scenario()


@run
async def test_much_work_of_many_has_one_turn_in_each_turn_of_the_loop() -> None:
    turn, worked = 0, list[int]()

    async def others() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def steps() -> Generator[None, None, None]:
        for _ in range(3):
            end = time.perf_counter() + WORK
            while time.perf_counter() < end:
                pass
            worked.append(turn)
            yield

    beside = asyncio.create_task(others())
    await asyncio.gather(*(stepwise(steps()) for _ in range(10)))
    beside.cancel()
    assert len(worked) == 30
    assert len(set(worked[10:])) == 20  # the first turn of each is the one it came in


async def turns_until(work: asyncio.Task[Any]) -> int:
    """How many turns others have until ``work`` is done."""
    turns = 0
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    return turns


def large(size: int = 4 << 20) -> tuple[Server, str]:
    server, text = Server("large"), "x" * size

    @server.tool
    async def big() -> str:
        return text

    return server, text


@run
async def test_a_large_answer_leaves_turns_to_others() -> None:
    server, text = large()
    message = json.dumps(modern("tools/call", {"name": "big"})).encode()
    work = asyncio.create_task(server.handle(message))
    assert await turns_until(work) > 10
    assert json.loads(work.result() or b"")["result"]["structuredContent"] == text


@run
async def test_the_large_answer_to_an_array_leaves_turns_to_others() -> None:
    batch = Batch(complete=True, replies=[b"1" * (4 << 20)] * 3, size=12 << 20)
    work = asyncio.create_task(stepwise(batch.joined()))
    assert await turns_until(work) > 10
    assert work.result() == encode_batch([b"1" * (4 << 20)] * 3)
    assert await stepwise(batch.joined()) == work.result()


@run
async def test_what_can_be_sent_in_pieces_is_never_put_together() -> None:
    replies = [b"1" * (4 << 20), b"2", b"3" * LONG_PIECE]
    body = Batch(complete=True, replies=list(replies), size=12 << 20).in_pieces()
    assert isinstance(body, Pieces)
    assert len(body) == len(encode_batch(replies))
    sizes: list[int] = []
    sent = b""
    async for piece in poured(body):
        sizes.append(len(piece))
        sent += piece
    assert sent == encode_batch(replies)
    assert max(sizes) == LONG_PIECE


@run
async def test_large_messages_are_read_in_line_with_everything_that_is_heavy() -> None:
    order: list[str] = []

    async def read(name: str) -> None:
        for _ in range(3):
            await turn()
            order.append(name)

    await asyncio.gather(read("one"), read("two"))
    assert order == ["one", "two"] * 3


@run
async def test_a_large_answer_leaves_turns_to_others_between_its_pieces() -> None:
    async def pour() -> int:
        return sum([len(piece) async for piece in poured(b"x" * (4 << 20))])

    work = asyncio.create_task(pour())
    assert await turns_until(work) >= 4 * (1 << 20) // LONG_PIECE // PIECES_AT_ONCE
    assert work.result() == 4 << 20


@run
async def test_a_call_is_refused_whose_answer_has_no_room_beside_one_that_is_being_written() -> None:
    server, _ = large()
    message = json.dumps(modern("tools/call", {"name": "big"})).encode()
    answers = server.admission.budget.answers
    answers.taken = answers.limit - (12 << 20)
    found = await asyncio.gather(*(server.handle(message) for _ in range(3)))
    codes = [json.loads(one or b"").get("error", {}).get("code") for one in found]
    assert codes == [None, 1004, 1004]
    assert answers.taken == answers.limit - (12 << 20)
