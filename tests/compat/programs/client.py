"""A client of the SDK that reaches servers through Dovetail: ``python client.py FUNCTION TARGET``."""

import asyncio
import os
import sys

from mcp import ClientSession, StdioServerParameters, types
from mcp.client import sse, stdio, streamable_http

import dovetail.compat

if sys.argv[1] == "without_websockets":
    sys.modules["websockets"] = None  # the SDK does not need it for other transports
BEFORE = [stdio.stdio_client]  # in a list: a name of a module would be replaced as well
undo = dovetail.compat.install()
assert stdio.stdio_client is not BEFORE[0]

PARAMETERS = StdioServerParameters(
    command=sys.executable,
    args=["-m", "dovetail.cli.main", "run", sys.argv[2]],
    env=dict(os.environ),
)


async def answer(context, params):
    return types.ElicitResult(action="accept", content={"value": 4})


async def use(read, write):
    told = []

    async def progress(*words):
        told.append(words)

    async with ClientSession(read, write, elicitation_callback=answer) as session:
        result = await session.initialize()
        info = getattr(result, "serverInfo", None) or result.server_info
        assert info.name == "modern"
        assert {tool.name for tool in (await session.list_tools()).tools} == {"ask", "header"}
        found = await session.call_tool("ask", {"question": "how many?"}, progress_callback=progress)
        assert found.content[0].text == "accept 4"
        assert told == [(1.0, 2.0, None)]
        return (await session.call_tool("header", {})).content[0].text


async def over_stdio():
    async with stdio.stdio_client(PARAMETERS) as (read, write):
        await use(read, write)


async def over_http():
    async with streamable_http.streamable_http_client(sys.argv[2]) as streams:
        await use(streams[0], streams[1])


async def over_http_with_headers():
    connect = streamable_http.streamablehttp_client
    async with connect(sys.argv[2], headers={"x-who": "ann"}) as (read, write, session_id):
        assert await use(read, write) == "ann"
        assert session_id() is None


async def over_sse():
    async with sse.sse_client(sys.argv[2], headers={"x-who": "ann"}) as (read, write):
        assert await use(read, write) == "ann"


async def over_websocket():
    from mcp.client.websocket import websocket_client

    async with websocket_client(sys.argv[2]) as (read, write):
        await use(read, write)


async def explicit():
    async with dovetail.compat.streams([PARAMETERS.command, *PARAMETERS.args], env=PARAMETERS.env) as (
        read,
        write,
    ):
        await use(read, write)
    with dovetail.compat.streams([PARAMETERS.command, *PARAMETERS.args], env=PARAMETERS.env) as (read, write):
        await use(read, write)


async def without_websockets():
    await over_stdio()


async def unreachable():
    connecting = dovetail.compat.streams("http://127.0.0.1:1/mcp")
    failures = await asyncio.gather(connecting.__aenter__(), return_exceptions=True)
    assert isinstance(failures[0], dovetail.TransportError), failures
    with dovetail.compat.streams("http://127.0.0.1:1/mcp") as (read, _):
        assert isinstance(await read.receive(), dovetail.TransportError)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]]())
    undo()
    assert stdio.stdio_client is BEFORE[0]
