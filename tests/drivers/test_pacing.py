"""What one peer brings at once is done in turns: others are served in between."""

import asyncio
import json
import time
from itertools import pairwise
from typing import Any

import pytest

from dovetail import Server
from dovetail.drivers.pacing import in_turns
from dovetail.settings import AT_ONCE, Limits
from dovetail.transports import tcp
from tests.support.aio import run
from tests.support.web import Web, legacy_headers, request, served

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
    server, begun = build(message_size=64_000)
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
