"""How sessions of an original begin and end; run by a Python that has the SDK 1.x. Fails where something is wrong."""

import asyncio
import sys
from contextlib import asynccontextmanager

from mcp import types
from mcp.server.lowlevel import Server

from dovetail import Client, DovetailError, Principal, Refusal
from dovetail.compat.adapter import ServerAdapter
from dovetail.compat.versions import SDKS

open_sessions = 0
begun = []
go_on = asyncio.Event()


@asynccontextmanager
async def lifespan(server):
    begun.append("begun")
    yield {"unit": "m"}
    begun.append("ended")


server = Server("low", lifespan=lifespan)


@server.list_tools()
async def list_tools():
    return [types.Tool(name=name, inputSchema={"type": "object"}) for name in ("count", "wait")]


@server.call_tool()
async def call_tool(name, arguments):
    if name == "wait":
        await go_on.wait()
    assert server.request_context.lifespan_context == {"unit": "m"}
    return [types.TextContent(type="text", text=str(open_sessions))]


async def session(read, write):
    global open_sessions
    open_sessions += 1
    try:
        await server.run(read, write, server.create_initialization_options())
    finally:
        open_sessions -= 1


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(0.01)


async def failure(work):
    """What ``work`` raises."""
    try:
        return f"it did not fail: {await work}"
    except Exception as error:
        return error


async def every_client_has_a_session():
    async with ServerAdapter(server, session, SDKS[1]).lifespan() as adapter:
        async with Client(adapter.proxy, revision="2025-11-25") as one:
            assert (await one.call_tool("count")).text == "2"  # the other has learnt what there is
            async with Client(adapter.proxy, revision="2025-06-18") as two:
                assert (await two.call_tool("count")).text == "3"
            await until(lambda: open_sessions == 2)
        assert open_sessions == 0
        assert begun == ["begun"]
    assert begun == ["begun", "ended"]


async def one_too_many_is_refused_while_the_others_work():
    adapter = ServerAdapter(server, session, SDKS[1], max_sessions=2)
    async with adapter.lifespan(), Client(adapter.proxy, revision="2025-11-25") as one:
        working = asyncio.ensure_future(one.call_tool("wait"))
        await until(lambda: open_sessions == 2)
        async with Client(adapter.proxy, revision="2025-11-25") as two:
            refused = await failure(two.call_tool("count"))
            assert isinstance(refused, Refusal)
            assert refused.code == 1004
            go_on.set()
            assert (await working).text == "2"
            assert (await two.call_tool("count")).text == "2"  # the idle one made room


async def a_session_that_fails_ends_its_calls_and_the_next_has_another():
    failing = asyncio.Event()

    async def fails(read, write):
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(session(read, write))
            waiting = group.create_task(failing.wait())
            await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
            if failing.is_set():
                raise RuntimeError("broken inside")
            waiting.cancel()

    go_on.clear()
    adapter = ServerAdapter(server, fails, SDKS[1])
    async with adapter.lifespan(), Client(adapter.proxy, revision="2025-11-25") as one:
        working = asyncio.ensure_future(one.call_tool("wait"))
        await until(lambda: open_sessions == 2)
        failing.set()
        assert isinstance(await failure(working), DovetailError)
        failing.clear()
        assert (await one.call_tool("count")).text


MESSAGE = """
{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "count", "arguments": {}, "_meta": {
 "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}}
"""


async def a_session_of_clients_without_sessions_expires():
    adapter = ServerAdapter(server, session, SDKS[1], idle_timeout=0.2)
    async with adapter.lifespan(), adapter.proxy.running():
        assert open_sessions == 1
        reply = await adapter.proxy.handle(MESSAGE, scope={"principal": Principal("ann")})
        assert b'"text":"2"' in reply
        await until(lambda: open_sessions == 1)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]]())
