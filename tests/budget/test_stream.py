"""What one `tools/call` costs on a stream such as stdio, from the bytes coming in to the bytes going out.

Counted in calls of our own Python functions (one that resumes after a wait counts again) and tasks, which do not
flutter with the load of the machine.
"""

import asyncio
import gc
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import dovetail
from dovetail import Context, Server
from dovetail.drivers.duplex import accept
from dovetail.transports.stream import LineLink
from tests.support.aio import run
from tests.support.rawclient import LEGACY, META, MODERN

OURS = str(Path(dovetail.__file__).parent)
CALLS = {MODERN: 20, "2024-11-05": 29, "2025-03-26": 29, "2025-06-18": 28, "2025-11-25": 28}
QUESTION = 72
"""A legacy call that asks the user something on its way."""


class Pipe:
    """Both halves of a stream whose other end is the test."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.write = self.written.append

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Stream:
    """A server at one end of a stream, and what it did since `count` was called."""

    def __init__(self, server: Server) -> None:
        self.calls: list[str] = []
        self.tasks = 0
        self._pipe = Pipe()
        self._duplex = accept(server.dispatcher)
        self._link = LineLink(self._duplex, server.limits)
        self._link.attach(self._pipe, self._pipe)

    async def open(self, revision: str) -> None:
        if revision != MODERN:
            info = {"name": "t", "version": "1"}
            declared = {"protocolVersion": revision, "capabilities": {"elicitation": {}}, "clientInfo": info}
            await self.say(id=0, method="initialize", params=declared)
            self._link.data_received(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    async def say(self, **message: Any) -> dict[str, Any]:
        """Send a message and return the next one of the server."""
        data = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
        seen = len(self._pipe.written)
        self._link.data_received(data)
        while len(self._pipe.written) == seen:  # noqa: ASYNC110  each turn is counted
            await asyncio.sleep(0)
        return json.loads(self._pipe.written[-1])

    async def count(self, work: Any) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        self.calls, self.tasks = [], 0
        loop.set_task_factory(self._task)
        gc.disable()  # callbacks of the garbage collector would count
        sys.setprofile(self._profile)
        try:
            return await work
        finally:
            sys.setprofile(None)
            gc.enable()
            loop.set_task_factory(None)

    def _task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        self.tasks += 1
        return asyncio.Task(coroutine, loop=loop, **options)

    def _profile(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            self.calls.append(f"{frame.f_code.co_filename[len(OURS) :]}:{frame.f_code.co_qualname}")

    async def close(self) -> None:
        self._link.finish(None)
        await self._duplex.wait_closed()


def serving(tools: int) -> Server:
    server = Server("budget")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def sure(ctx: Context) -> str:
        return (await ctx.elicit("sure?", bool)).action

    for number in range(tools - 2):
        server.add_tool(add, name=f"add_{number}")
    return server


def adding(revision: str) -> dict[str, Any]:
    params: dict[str, Any] = {"name": "add", "arguments": {"a": 1, "b": 2}}
    if revision == MODERN:
        params["_meta"] = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
    return {"method": "tools/call", "params": params}


async def cost(tools: int, revision: str) -> Stream:
    stream = Stream(serving(tools))
    await stream.open(revision)
    answer: dict[str, Any] = {}
    for id in (1, 2, 3):  # what is made once is made
        answer = await stream.count(stream.say(id=id, **adding(revision)))
    assert answer["result"]["content"][0]["text"] == "3"
    await stream.close()
    return stream


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
def test_a_call_on_a_stream_stays_within_its_budget(revision: str) -> None:
    @run
    async def scenario() -> None:
        stream = await cost(2, revision)
        assert len(stream.calls) <= CALLS[revision], "\n".join(stream.calls)
        assert stream.tasks == 1

    scenario()


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_a_call_with_one_input_request_stays_within_its_budget(revision: str) -> None:
    @run
    async def scenario() -> None:
        stream = Stream(serving(2))
        await stream.open(revision)

        async def asked(id: int) -> dict[str, Any]:
            question = await stream.say(id=id, method="tools/call", params={"name": "sure"})
            accepted = {"action": "accept", "content": {"value": True}}
            return await stream.say(id=question["id"], result=accepted)

        answer: dict[str, Any] = {}
        for id in (1, 2, 3):
            answer = await stream.count(asked(id))
        assert answer["result"]["content"][0]["text"] == "accept"
        assert len(stream.calls) <= QUESTION, "\n".join(stream.calls)
        assert stream.tasks == 1
        await stream.close()

    scenario()


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
def test_a_call_leaves_nothing_for_the_garbage_collector(revision: str) -> None:
    @run
    async def scenario() -> None:
        stream = Stream(serving(2))
        await stream.open(revision)
        for id in range(10):
            await stream.say(id=id, **adding(revision))
        gc.collect()
        gc.disable()
        try:
            for id in range(10, 30):
                await stream.say(id=id, **adding(revision))
                await stream.say(id=id, method="tools/call", params={"name": "no such tool"})
            assert gc.collect() == 0
        finally:
            gc.enable()
        await stream.close()

    scenario()


@run
async def test_the_cost_does_not_grow_with_the_number_of_tools() -> None:
    assert len((await cost(2, MODERN)).calls) == len((await cost(300, MODERN)).calls)
