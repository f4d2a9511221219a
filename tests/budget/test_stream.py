"""What one `tools/call` costs on a stream, from the message coming in to the answer going out.

Counted in Python function calls and tasks, which do not flutter with the load of the machine.
"""

import asyncio
import json
import sys
from typing import Any

import pytest

from dovetail import Server
from dovetail.core.channel import Link
from dovetail.drivers.duplex import Duplex, accept
from tests.support.aio import run
from tests.support.rawclient import LEGACY, META, MODERN

CALLS = 70


class Sink(Link):
    """A link that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, message: bytes) -> None:
        self.sent.append(message)


def message(id: int, revision: str = MODERN) -> bytes:
    params: dict[str, Any] = {"name": "add", "arguments": {"a": 1, "b": 2}}
    if revision == MODERN:
        params["_meta"] = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).encode()


def initialize(revision: str) -> bytes:
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()


def serving(tools: int) -> Server:
    server = Server("budget")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    for number in range(tools - 1):
        server.add_tool(add, name=f"add_{number}")
    return server


async def measured(duplex: Duplex, sink: Sink, data: bytes) -> tuple[int, int, list[str]]:
    """Python calls and new tasks between `received` and `send`; calls of the test itself are left out."""
    calls: list[str] = []
    tasks = 0
    loop = asyncio.get_running_loop()

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        nonlocal tasks
        tasks += 1
        return asyncio.Task(coroutine, loop=loop, **options)

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename != __file__:
            calls.append(f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_code.co_qualname}")

    loop.set_task_factory(factory)
    sent = len(sink.sent)
    sys.setprofile(profile)
    try:
        duplex.received(data)
        while len(sink.sent) == sent:  # noqa: ASYNC110  each turn is counted
            await asyncio.sleep(0)
    finally:
        sys.setprofile(None)
        loop.set_task_factory(None)
    return len(calls), tasks, calls


async def cost(tools: int, revision: str) -> tuple[int, int, list[str]]:
    duplex, sink = accept(serving(tools)), Sink()
    duplex.connected(sink)
    if revision != MODERN:
        duplex.received(initialize(revision))
        duplex.received(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    for id in (1, 2):  # what is made once is made
        await measured(duplex, sink, message(id, revision))
    found = await measured(duplex, sink, message(3, revision))
    assert json.loads(sink.sent[-1])["result"]["content"][0]["text"] == "3"
    await duplex.close()
    return found


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
def test_a_call_on_a_stream_stays_within_its_budget(revision: str) -> None:
    @run
    async def scenario() -> None:
        calls, tasks, names = await cost(1, revision)
        assert calls <= CALLS, "\n".join(names)
        assert tasks == 1

    scenario()


@run
async def test_the_cost_does_not_grow_with_the_number_of_tools() -> None:
    few, _, _ = await cost(1, MODERN)
    many, _, _ = await cost(300, MODERN)
    assert few == many
