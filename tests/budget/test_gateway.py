"""What one hop through a proxy costs, in Python calls beyond those of the client and the server it is made of."""

import sys
from pathlib import Path
from typing import Any

import dovetail
from dovetail import Client, Server
from dovetail.gateway import Proxy
from tests.budget.test_client_stream import SERVER
from tests.budget.test_handle import MODERN, message
from tests.support.aio import run

HOP = 12
OURS = str(Path(dovetail.__file__).parent)
CALL = message("tools/call", name="add", arguments={"a": 2, "b": 3}, _meta=MODERN)


async def counted(work: Any) -> list[str]:
    """The calls of our own functions during the sixth run of ``work``."""
    calls: list[str] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OURS):
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
