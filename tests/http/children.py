"""Servers in processes of their own, and how tests talk to them."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.process import CLI
from tests.support.waiting import HANG
from tests.support.web import (
    Connection,
    Web,
    modern,
    modern_headers,
    text,
)

NEWEST = "2025-11-25"


SLOW = """
import asyncio, os
from dovetail import Context, Server
server = Server("slow")

@server.tool
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"

@server.tool
async def stubborn() -> str:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "so be it"

@server.tool
async def pid() -> int:
    return os.getpid()

@server.tool
async def ask(ctx: Context) -> str:
    return (await ctx.sample("?", max_tokens=5)).text
"""


STUCK = """
import asyncio, ctypes, sys, time
from dovetail import Server
from dovetail.transports.http import http_serving
http_serving.HTTP_MARGIN = 1.0
server = Server("stuck")

@server.tool
async def in_a_thread() -> str:
    print("blocking", file=sys.stderr, flush=True)
    await asyncio.to_thread(time.sleep, 600)
    return ""

@server.tool
async def in_the_loop() -> str:
    print("blocking", file=sys.stderr, flush=True)
    time.sleep(600)
    return ""

@server.tool
async def in_foreign_code() -> str:
    print("blocking", file=sys.stderr, flush=True)
    library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)
    while True:  # the second time never ends and keeps the lock of the interpreter, as a broken extension does
        library.pthread_mutex_lock(mutex)

async def never_give_in() -> None:
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

tasks = []

@server.tool
async def leave_a_task() -> str:
    tasks.append(asyncio.create_task(never_give_in()))
    return "left"

server.run("http", port=0, shutdown_grace_period=0.2, workers=int(sys.argv[1]))
"""


ANSWER = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}}


class Child:
    """A served file, and what it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said = ""
        self.address: Any = None
        self.connections: list[Connection] = []

    async def ready(self) -> None:
        assert self.process.stderr is not None
        async with asyncio.timeout(HANG):
            while not (found := re.search(r"serving on (\S+?://\S+?:(\d+)|unix:(\S+))/mcp", self.said)):
                line = await self.process.stderr.readline()
                assert line, self.said
                self.said += line.decode()
        self.address = found[3] or ("127.0.0.1", int(found[2]))

    async def says(self, words: str) -> None:
        """Wait until it has said so."""
        assert self.process.stderr is not None
        async with asyncio.timeout(HANG):
            while words not in self.said:
                line = await self.process.stderr.readline()
                assert line, self.said
                self.said += line.decode()

    async def connect(self, **options: Any) -> Connection:
        if isinstance(self.address, str):
            pair = await asyncio.open_unix_connection(self.address)
        else:
            pair = await asyncio.open_connection(*self.address, **options)
        self.connections.append(Connection(*pair))
        return self.connections[-1]

    async def ended(self, limit: float = 15) -> int:
        """The exit status, once it has ended; its output is in `said`."""
        assert self.process.stderr is not None
        async with asyncio.timeout(limit):
            self.said += (await self.process.stderr.read()).decode()
            return await self.process.wait()


def child(*arguments: str) -> AbstractAsyncContextManager[Child]:
    return started(*CLI, "run", *arguments, "--http")


@asynccontextmanager
async def started(*command: str, cwd: Path | None = None, announces: bool = True) -> AsyncIterator[Child]:
    """A server in a separate process; without an announced address it counts as ready immediately."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        cwd=cwd,
    )
    held = Child(process)
    try:
        if announces:
            await held.ready()
        yield held
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await held.ended()
        for connection in held.connections:
            await connection.close()


def stuck(folder: Path, workers: str) -> AbstractAsyncContextManager[Child]:
    path = folder / "stuck.py"
    path.write_text(STUCK)
    return started(sys.executable, str(path), workers)


async def ask_for(served: Child, tool: str) -> Connection:
    """Call a slow tool on a new connection."""
    connection = await served.connect()
    message = modern("tools/call", {"name": tool})
    connection.request("POST", "/mcp", modern_headers(message), json.dumps(message).encode())
    return connection


async def ask_until_complete(web: Web, name: str) -> str:
    params: dict[str, Any] = {"name": name}
    for _ in range(4):
        result = (await web.modern("tools/call", params)).message["result"]
        if result["resultType"] == "complete":
            return text(result)
        responses = dict.fromkeys(result["inputRequests"], ANSWER)
        params |= {"requestState": result["requestState"], "inputResponses": responses}
    raise AssertionError("it never stops asking")
