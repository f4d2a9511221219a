"""Programs that cannot be served: one line that says why, and exit status 3 before anything is served."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from .originals import environment, on_dovetail

pytestmark = pytest.mark.peer

LOW = """
import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
s = Server("s")
"""
HIGH = "from mcp.server.fastmcp import FastMCP\na = FastMCP('a')\nb = FastMCP('b')\n"
FAILING = """
from contextlib import asynccontextmanager
from mcp.server.fastmcp import FastMCP
@asynccontextmanager
async def lifespan(server):
    raise RuntimeError("no database")
    yield
FastMCP("a", lifespan=lifespan).run()
"""
LOW_HTTP = """
import anyio
from mcp.server.fastmcp import FastMCP
mcp = FastMCP("a")
app = mcp.streamable_http_app()
async def serve():
    # What an HTTP server does first.
    async with app.router.lifespan_context(app):
        print("serving on its own port", flush=True)
"""
NO_LOOP = """
from mcp.server.fastmcp import FastMCP
work = FastMCP("a").run_stdio_async()
work.send(None)
"""
PROGRAMS = {
    "two servers at its top level": (
        HIGH,
        [],
        "server.py has 2 servers; choose one: .*server.py:a or .*server.py:b",
    ),
    "two servers at once": (
        HIGH
        + """
import anyio
async def main():
    async with anyio.create_task_group() as group:
        group.start_soon(a.run_stdio_async)
        group.start_soon(b.run_stdio_async)
anyio.run(main)
""",
        [],
        r"starts 2 servers at once \(a, b\); choose one",
    ),
    "two servers in one HTTP application, over stdio": (
        HIGH
        + """
import contextlib, uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
one, two = a.streamable_http_app(), b.streamable_http_app()
@contextlib.asynccontextmanager
async def lifespan(app):
    async with a.session_manager.run(), b.session_manager.run():
        yield
uvicorn.run(Starlette(routes=[Mount("/one", one), Mount("/two", two)], lifespan=lifespan))
""",
        [],
        r"has 2 servers \(a, b\) that can be served without HTTP; use --http",
    ),
    "no server": ("import mcp\n", ["--compat"], "ended without starting a server"),
    "not a server": (HIGH + "c = 3\n", [":c"], "c in .* is neither a server nor a function that makes one"),
    "a transport that is not intercepted": (
        LOW
        + """
import uvicorn
from mcp.server.websocket import websocket_server
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
async def serve(socket):
    async with websocket_server(socket.scope, socket.receive, socket.send) as (read, write):
        await s.run(read, write, s.create_initialization_options())
uvicorn.run(Starlette(routes=[WebSocketRoute("/ws", serve)]), port=0)
""",
        ["--http", "--port", "0"],
        "an HTTP application without a server that Dovetail can intercept",
    ),
    "a session of its own making": (
        LOW
        + """
from mcp.server.session import ServerSession
async def main():
    async with stdio_server() as (read, write):
        async with ServerSession(read, write, s.create_initialization_options()) as session:
            async for message in session.incoming_messages:
                print(message)
anyio.run(main)
""",
        [],
        "reads the streams of a transport itself",
    ),
    "an HTTP server that is not intercepted": (
        LOW_HTTP + "anyio.run(serve)\n",
        ["--http", "--port", "0"],
        "serves its HTTP application without uvicorn",
    ),
    "a lifespan that fails": (
        FAILING,
        [],
        "failed before it started a server: RuntimeError: no database",
    ),
    "a lifespan that fails, over HTTP": (
        FAILING,
        ["--http", "--port", "0"],
        "failed before it started a server: RuntimeError: no database",
    ),
    "an event loop that is not asyncio": (
        NO_LOOP,
        [],
        "runs its server without an asyncio event loop",
    ),
    "sys.exit": (
        LOW + "import sys\nsys.exit('no configuration')\n",
        [],
        r"called sys.exit\('no configuration'\)",
    ),
    "arguments that are missing": (
        LOW + "import argparse\np = argparse.ArgumentParser()\np.add_argument('db')\np.parse_args()\n",
        [],
        r"called sys.exit\(2\) before it started a server; if it needs arguments, give them after --",
    ),
    "an error": (
        LOW + "raise ValueError('broken')\n",
        [],
        "failed before it started a server: ValueError: broken",
    ),
    "not Python": (LOW + "def\n", ["--compat"], "is not valid Python"),
    "a library that is not installed": (
        "import mcp\nfrom fastmcp import FastMCP\n",
        [],
        "server.py needs fastmcp, which is not installed: pip install fastmcp",
    ),
    "an address that other machines reach": (
        HIGH,
        [":a", "--http", "--host", "0.0.0.0"],
        "0.0.0.0 can be reached from other machines",
    ),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_a_program_that_cannot_be_served_is_refused(case: str, tmp_path: Path) -> None:
    source, options, wanted = PROGRAMS[case]
    words = [*options]
    path = tmp_path / "server.py"
    path.write_text("print('printed at import')\n" + source)
    target = f"{path}{words.pop(0)}" if words and words[0].startswith(":") else str(path)
    done = subprocess.run(
        on_dovetail("mcp1", target, *words),
        env=environment(),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("dovetail run: ")]
    assert done.returncode == 3, done.stderr
    assert len(lines) == 1
    assert re.search(wanted, lines[0])
    assert "serving on" not in done.stderr
    assert done.stdout == ("printed at import\n" if "--http" in words and "machines" not in case else "")


def test_a_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    import socket

    path = tmp_path / "server.py"
    path.write_text(HIGH)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            on_dovetail("mcp1", f"{path}:a", "--http", "--port", port),
            env=environment(),
            capture_output=True,
            text=True,
        )
    assert done.returncode == 3
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr.splitlines()[-1]
