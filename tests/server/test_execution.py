"""How handlers run: in threads and processes, with timeouts and limits, inside a lifespan."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from dovetail import Context, RegistrationError, Server
from tests.server.weather import build, every_revision
from tests.support.aio import run
from tests.support.peer import Peer
from tests.support.waiting import HANG, until


@run
async def test_a_timeout_says_which_limit_fired() -> None:
    server = Server("x", "1", timeout=0.01)

    @server.tool
    async def slow() -> str:
        await asyncio.Event().wait()
        return ""

    @server.tool(timeout=None)
    async def own() -> str:
        raise TimeoutError("mine")

    @server.prompt
    async def slow_prompt() -> str:
        await asyncio.Event().wait()
        return ""

    result = await Peer(server).call("slow")
    assert result["isError"] is True
    assert result["content"][0]["text"] == "tool 'slow' did not finish within its timeout of 0.01 s"
    assert result["_meta"]["dovetail/kind"] == "tool_timeout"
    assert "timeout" not in await Peer(server).text("own")
    error = await Peer(server).error("prompts/get", name="slow_prompt")
    assert error["message"] == "prompt 'slow_prompt' did not finish within its timeout of 0.01 s"


@every_revision
@run
async def test_a_call_over_the_limit_waits_its_turn_and_is_refused_when_the_queue_is_full(
    revision: str,
) -> None:
    server = Server("x", "1")
    gate = asyncio.Event()
    order: list[int] = []

    @server.tool(limit=2, queue=2)
    async def wait(number: int) -> str:
        order.append(number)
        await gate.wait()
        return "done"

    calls = [asyncio.create_task(Peer(server, revision).text("wait", number=n)) for n in range(4)]
    await until(lambda: len(order) == 2)
    error = await Peer(server, revision).error("tools/call", name="wait", arguments={"number": 9})
    assert error["code"] == 1004
    assert error["data"]["kind"] == "too_many_tools"
    assert order == [0, 1]
    gate.set()
    assert await asyncio.gather(*calls) == ["done"] * 4
    assert order == [0, 1, 2, 3]
    assert await Peer(server, revision).text("wait", number=4) == "done"


@run
async def test_a_hundred_calls_wait_in_the_queue_by_default() -> None:
    server = Server("x", "1")
    gate = asyncio.Event()
    peer = Peer(server)

    @server.tool(limit=1)
    async def wait() -> str:
        await gate.wait()
        return "done"

    calls = [asyncio.create_task(Peer(server).text("wait")) for _ in range(101)]
    await asyncio.sleep(0)
    assert (await peer.error("tools/call", name="wait"))["code"] == 1004
    gate.set()
    assert await asyncio.gather(*calls) == ["done"] * 101


@run
async def test_a_cancelled_waiter_leaves_the_queue_and_its_turn_to_the_next() -> None:
    server = Server("x", "1")
    gate, runs = asyncio.Event(), 0

    @server.tool(limit=1, queue=1)
    async def wait() -> str:
        nonlocal runs
        runs += 1
        await gate.wait()
        return "done"

    first = asyncio.create_task(Peer(server).text("wait"))
    await until(lambda: runs == 1)
    for _ in range(3):
        waiter = asyncio.create_task(Peer(server).text("wait"))
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
    last = asyncio.create_task(Peer(server).text("wait"))
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(first, last) == ["done", "done"]
    assert runs == 2
    # Cancelled when it acquires the semaphore: the slot must not be lost.
    gate.clear()
    first = asyncio.create_task(Peer(server).text("wait"))
    await until(lambda: runs == 3)
    waiter = asyncio.create_task(Peer(server).text("wait"))
    await asyncio.sleep(0)
    gate.set()
    assert await first == "done"
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    assert await Peer(server).text("wait") == "done"


@run
async def test_a_call_and_its_waiter_that_are_cancelled_together_end_as_cancelled() -> None:
    server = Server("x", "1")
    runs = 0

    @server.tool(limit=1)
    async def wait(once: bool = False) -> str:
        nonlocal runs
        runs += 1
        if not once:
            await asyncio.Event().wait()
        return "done"

    calls = [asyncio.create_task(Peer(server).text("wait"))]
    await until(lambda: runs == 1)
    calls += [asyncio.create_task(Peer(server).text("wait")) for _ in range(2)]
    await asyncio.sleep(0)
    for call in calls:  # as a client that hangs up does
        call.cancel()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one) for one in ended] == [asyncio.CancelledError] * 3
    assert await Peer(server).text("wait", once=True) == "done"
    assert runs == 2


@run
async def test_a_waiter_whose_time_runs_out_leaves_the_queue() -> None:
    server = Server("x", "1")
    runs, gate = 0, asyncio.Event()

    @server.tool(limit=1, queue=1, timeout=0.02)
    async def wait() -> str:
        nonlocal runs
        runs += 1
        try:
            await asyncio.Event().wait()
        finally:
            await gate.wait()  # a handler that is slow to give in
        return ""

    first = asyncio.create_task(Peer(server).call("wait"))
    await until(lambda: runs == 1)
    for _ in range(3):
        assert (await Peer(server).call("wait"))["_meta"]["dovetail/kind"] == "tool_timeout"
    assert runs == 1
    gate.set()
    assert (await first)["_meta"]["dovetail/kind"] == "tool_timeout"
    assert (await Peer(server).call("wait"))["_meta"]["dovetail/kind"] == "tool_timeout"
    assert runs == 2


@run
async def test_plain_functions_run_in_threads_and_do_not_block_each_other() -> None:
    import threading

    server = Server("x", "1")
    both = threading.Barrier(2, timeout=HANG)

    @server.tool
    def meet() -> bool:
        both.wait()
        return threading.current_thread() is threading.main_thread()

    @server.tool(run="inline")
    def inline() -> bool:
        return threading.current_thread() is threading.main_thread()

    peer = Peer(server)
    assert await asyncio.gather(peer.text("meet"), peer.text("meet")) == ["false", "false"]
    assert await peer.text("inline") == "true"
    await server.lifecycle.stop()


def in_a_process(text: str) -> str:
    """Used by name from another process."""
    import os

    return f"{text} {os.getpid()}"


@run
async def test_a_tool_can_run_in_a_process_of_its_own() -> None:
    import os

    server = Server("x", "1")
    server.add_tool(in_a_process, run="process")
    text = await Peer(server).text("in_a_process", text="hello")
    assert text.startswith("hello ")
    assert text != f"hello {os.getpid()}"
    await server.lifecycle.stop()


def test_what_cannot_run_in_a_process_is_refused_at_registration() -> None:
    server = Server("x", "1")

    async def asks(ctx: Context) -> str:
        return ctx.revision

    with pytest.raises(RegistrationError, match="Context"):
        server.add_tool(asks, run="process")
    with pytest.raises(RegistrationError, match="top level"):
        server.add_tool(lambda: "", name="x", run="process")
    assert not server.registry.tools


@run
async def test_the_lifespan_runs_once_and_its_value_reaches_handlers() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[dict[str, str]]:
        events.append("start")
        yield {"db": server.dispatcher.info.name}
        events.append("stop")

    server = Server("x", "1", lifespan=lifespan)

    @server.tool
    async def name(ctx: Context) -> str:
        return ctx.lifespan["db"]

    peer = Peer(server)
    assert await asyncio.gather(*(peer.text("name") for _ in range(5))) == ["x"] * 5
    assert events == ["start"]
    await server.lifecycle.stop()
    await server.lifecycle.stop()
    assert events == ["start", "stop"]
    async with server.running():
        assert await peer.text("name") == "x"
    assert events == ["start", "stop", "start", "stop"]


@run
async def test_a_lifespan_that_fails_raises_in_start_and_can_be_retried() -> None:
    fail = True

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[None]:
        if fail:
            raise OSError("no database")
        yield None

    server = build(lifespan=lifespan)
    with pytest.raises(OSError, match="no database"):
        await server.lifecycle.start()
    fail = False
    await server.lifecycle.start()
    await server.lifecycle.stop()
