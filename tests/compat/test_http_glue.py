"""A low-level server inside somebody's own Starlette application, and at our command line."""

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail import Client
from tests.support.aio import run
from tests.support.waiting import HANG, until

PROGRAM = """
import contextlib, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route, WebSocketRoute
import mcp.types as types
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.websocket import websocket_server

server = Server("web")

@server.list_tools()
async def list_tools():
    return [types.Tool(name="where", inputSchema={"type": "object"})]

@server.call_tool()
async def call_tool(name, arguments):
    request = server.request_context.request
    return [types.TextContent(type="text", text="none" if request is None else request.headers["x-place"])]

manager = StreamableHTTPSessionManager(app=server, json_response=False)
sse = SseServerTransport("/messages/")

class Sse:
    async def __call__(self, scope, receive, send):
        async with sse.connect_sse(scope, receive, send) as streams:
            await server.run(streams[0], streams[1], server.create_initialization_options())

class Socket:
    async def __call__(self, scope, receive, send):
        async with websocket_server(scope, receive, send) as streams:
            await server.run(streams[0], streams[1], server.create_initialization_options())

@contextlib.asynccontextmanager
async def lifespan(app):
    async with manager.run():
        yield

app = Starlette(routes=[
    Route("/hello", lambda request: PlainTextResponse("hello")),
    Route("/sse", Sse()),
    WebSocketRoute("/ws", Socket()),
    Mount("/messages/", app=sse.handle_post_message),
    Mount("/mcp", app=manager.handle_request),
], lifespan=lifespan)
uvicorn.run(app, host="127.0.0.1", port=1, log_level="warning")
"""
COMMAND = (sys.executable, "-m", "dovetail.cli.main", "run", "--compat")
START = 60.0
"""Seconds that a program may take to start: there may be many others."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
@run
async def test_an_application_runs_at_the_port_of_our_command_line(tmp_path: Path, revision: str) -> None:
    path, port = tmp_path / "web.py", free_port()
    path.write_text(PROGRAM)
    child = await asyncio.create_subprocess_exec(*COMMAND, path, "--http", "--port", str(port))
    try:
        await until(lambda: listens(port), START)
        headers = {"x-place": "here"}
        async with Client(f"http://127.0.0.1:{port}/mcp/", revision=revision, headers=headers) as client:
            assert (await client.call_tool("where")).text == "here"
        async with Client(f"ws://127.0.0.1:{port}/ws", revision=revision, headers=headers) as client:
            assert (await client.call_tool("where")).text == "here"
        if revision == "2025-06-18":
            async with Client(f"http://127.0.0.1:{port}/sse", headers=headers) as client:
                assert [tool.name for tool in await client.list_tools()] == ["where"]
    finally:
        child.terminate()
        await child.wait()


@run
async def test_an_application_of_ones_own_is_served_over_stdio_when_we_say_so(tmp_path: Path) -> None:
    path = tmp_path / "web.py"
    path.write_text(PROGRAM)
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    async with Client([*COMMAND, str(path)], env=environment) as client:
        assert (await client.call_tool("where")).text == "none"


ONLY_SSE = """
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount, Route
import mcp.types as types
from mcp.server import Server
from mcp.server.sse import SseServerTransport

server = Server("streams")

@server.list_tools()
async def list_tools():
    return [types.Tool(name="where", inputSchema={"type": "object"})]

@server.call_tool()
async def call_tool(name, arguments):
    return [types.TextContent(type="text", text="none" if server.request_context.request is None else "http")]

sse = SseServerTransport("/messages/")

class Sse:
    async def __call__(self, scope, receive, send):
        async with sse.connect_sse(scope, receive, send) as streams:
            await server.run(streams[0], streams[1], server.create_initialization_options())

app = Starlette(routes=[Route("/sse", Sse()), Mount("/messages/", app=sse.handle_post_message)])
"""
SERVED = "uvicorn.run(app, host='127.0.0.1', port=1, log_level='warning')\n"


@run
async def test_stdio_wins_over_an_application_that_learns_of_its_server_when_a_client_comes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "streams.py"
    path.write_text(ONLY_SSE + SERVED)
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    async with Client([*COMMAND, str(path)], env=environment) as client:
        assert (await client.call_tool("where")).text == "none"


def test_of_two_servers_behind_such_an_application_none_is_guessed(tmp_path: Path) -> None:
    path = tmp_path / "streams.py"
    path.write_text(ONLY_SSE + "other = Server('other')\n" + SERVED)
    done = subprocess.run(
        [*COMMAND, str(path)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=HANG,
        check=False,
    )
    assert done.returncode == 1
    assert "2 servers (other, streams)" in done.stderr


@run
async def test_such_an_application_is_still_served_over_http(tmp_path: Path) -> None:
    path, port = tmp_path / "streams.py", free_port()
    path.write_text(ONLY_SSE + SERVED)
    child = await asyncio.create_subprocess_exec(*COMMAND, path, "--http", "--port", str(port))
    try:
        await until(lambda: listens(port), START)
        async with Client(f"http://127.0.0.1:{port}/sse") as client:
            assert (await client.call_tool("where")).text == "http"
    finally:
        child.terminate()
        await child.wait()
