"""What one hop through a proxy costs, in Python calls beyond those of the client and the server it is made of."""

import sys
import time
from pathlib import Path
from typing import Any

import dovetail
from dovetail import Client, Server
from dovetail.gateway import Proxy
from dovetail.gateway.mounting import Mounts
from dovetail.gateway.providers import ServerProvider
from tests.budget.test_client_stream import SERVER
from tests.budget.test_handle import MODERN, message
from tests.support.aio import run

HOP = 11
OURS = str(Path(dovetail.__file__).parent)
MONITOR = ("middleware/event_loop_monitor.py", "middleware/health.py", "drivers/heartbeat.py")
"""What runs by the clock, whatever is called."""
CALL = message("tools/call", name="add", arguments={"a": 2, "b": 3}, _meta=MODERN)


async def counted(work: Any) -> list[str]:
    """The calls of our own functions during the sixth run of ``work``."""
    calls: list[str] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        ours = code.co_filename.startswith(OURS) and not code.co_filename.endswith(MONITOR)
        if event == "call" and ours:
            calls.append(f"{code.co_filename.removeprefix(OURS)}:{code.co_qualname}")

    for _ in range(5):
        await work()
    sys.setprofile(profile)
    try:
        await work()
    finally:
        sys.setprofile(None)
    return calls


@run
async def test_a_hop_on_one_revision_stays_within_its_budget() -> None:
    listed = '{"tools": [], "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}'
    program = SERVER.replace("RESULTS = {", f'RESULTS = {{"tools/list": {listed}, ')
    command = [sys.executable, "-c", program]
    server = Server("own", "1")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    proxy = Proxy(command, revision="modern")
    async with proxy.running(), Client(command, revision="modern") as client:
        through = await counted(lambda: proxy.handle(CALL))
        behind = await counted(lambda: client.call_tool("add", {"a": 2, "b": 3}))
        in_front = await counted(lambda: server.handle(CALL))
        reply = await proxy.handle(CALL)
    assert reply is not None
    assert b'"text":"5"' in reply
    assert len(through) - len(behind) - len(in_front) <= HOP, "\n".join(through)


LIST = 240
"""For ten pages of a hundred tools each, of a hundred servers."""


def many(count: int) -> Server:
    """A server with ``count`` mounted proxies, with ten tools each."""
    front = Server("front", "1")
    for number in range(count):
        behind = Server(f"behind {number}", "1")
        for tool in range(10):
            behind.add_tool(
                lambda: "x", name=f"tool_{tool}", description="A tool that does something useful."
            )
        front.mount(Proxy(behind), prefix=f"p{number}")
    return front


async def listed(server: Server) -> int:
    """Ask for all pages; how many tools there are."""
    found, more = 0, {}
    while True:
        reply = await server.handle(message("tools/list", _meta=MODERN, **more))
        assert reply is not None
        found += reply.count(b'"inputSchema"')
        start = reply.rfind(b'"nextCursor":"')
        if start < 0:
            return found
        more = {"cursor": reply[start + 14 : reply.index(b'"', start + 14)].decode()}


@run
async def test_what_a_call_costs_does_not_depend_on_the_number_of_servers() -> None:
    costs: list[int] = []
    for count in (1, 100):
        front = many(count)
        call = message("tools/call", name=f"p{count - 1}_tool_3", arguments={}, _meta=MODERN)
        async with front.running():
            costs.append(len(await counted(lambda front=front, call=call: front.handle(call))))
    assert costs[0] == costs[1]


@run
async def test_a_list_of_a_hundred_servers_is_kept_until_one_of_them_changes() -> None:
    front = many(100)
    async with front.running():
        assert await listed(front) == 1_000
        calls = await counted(lambda: listed(front))
        took = 1.0
        for _ in range(10):  # the best of them: what else the machine does makes any single one slow
            begun = time.process_time()
            assert await listed(front) == 1_000
            took = min(took, time.process_time() - begun)
        assert isinstance(front.registry.composition, Mounts)
        part = front.registry.composition.mounts[42].part
        assert isinstance(part, ServerProvider)
        part.server.add_tool(lambda: "", name="late", description="d")
        assert await listed(front) == 1_001
    assert len(calls) <= LIST, "\n".join(calls)
    assert took <= 0.005
