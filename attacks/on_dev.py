"""Attacks on ``dovetail dev``: by pages of other sites and programs without its token, and by the server it runs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from dovetail import Client, Timeouts

from .report import GotThrough, Scale, attack
from .victim import Wire, http, modern, modern_headers
from .weight import resident

LOUD = """
import os, threading, time
from dovetail import Server
server = Server("loud<script>alert(1)</script>", version="1")


def shout(piece, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        os.write(2, piece)


@server.tool
async def begin(lines: bool, seconds: float) -> str:
    piece = b"x" * 99 + b"\\n" if lines else b"x" * 100
    threading.Thread(target=shout, args=(piece * 600, seconds), daemon=True).start()
    return "begun"


@server.tool
async def echo(text: str) -> str:
    return text
"""


@dataclass
class Dev:
    """A running ``dovetail dev``."""

    process: asyncio.subprocess.Process
    url: str
    page: str
    token: str

    def memory(self) -> int:
        return resident(self.process.pid)

    async def ask(self, data: bytes, port: str) -> tuple[int, dict[str, str], bytes]:
        wire = Wire(*await asyncio.open_connection("127.0.0.1", int(port), limit=1 << 24))
        try:
            wire.send(data)
            return await wire.response()
        finally:
            wire.drop()


@asynccontextmanager
async def developing() -> AsyncIterator[Dev]:
    """A server that is being written, and its page; what both say is thrown away."""
    with TemporaryDirectory() as folder:
        await asyncio.to_thread(Path(folder, "server.py").write_text, LOUD)
        words = ("dev", "server.py", "--port", "0", "--no-browser", "--json")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "dovetail.cli.main",
            *words,
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert process.stderr is not None
        try:
            async with asyncio.timeout(60):
                while (line := await process.stderr.readline()) and b'"inspector"' not in line:
                    pass
            places = json.loads(line)
            page, _, token = places["inspector"].partition("/?token=")
            reading = asyncio.create_task(_throw_away(process.stderr))
            yield Dev(process, places["serving"], page, token)
            reading.cancel()
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _throw_away(stream: asyncio.StreamReader) -> None:
    while await stream.read(1 << 16):
        pass


@attack("client", seconds=120)
async def a_server_that_writes_to_stderr_without_end(scale: Scale) -> str:
    """The server that is being written fills its stderr, with lines and with one that does not end."""
    told, seconds = list[str](), scale.of(1.5, 6.0)
    for lines in (True, False):
        async with developing() as dev, Client(dev.url, timeouts=Timeouts(30, 30, 30)) as client:
            await client.call_tool("echo", {"text": "first"})
            before, slowest, highest = dev.memory(), 0.0, 0
            await client.call_tool("begin", {"lines": lines, "seconds": seconds})
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                asked = time.monotonic()
                await client.call_tool("echo", {"text": "still there?"})
                slowest = max(slowest, time.monotonic() - asked)
                highest = max(highest, dev.memory() - before)
                await asyncio.sleep(0.02)
        told.append(
            f"{'lines' if lines else 'no lines'}: calls took {slowest * 1000:.0f} ms at most, {highest >> 20} MiB"
        )
        if slowest > 1.0 or highest > 48 << 20:
            raise GotThrough(told[-1])
    return "; ".join(told)


PATHS = (
    "/",
    "/api/state",
    "/api/call",
    "/api/connect",
    "/events",
    "/main.js",
    "/app/x",
    "/../api.py",
    "/%2e%2e/api.py",
    "/views/..%2f..%2fguard.py",
    "//etc/passwd",
    "/index.html",
    "/.env",
    "/\\..\\api.py",
)
FOREIGN = (
    {"Host": "evil.example"},
    {"Host": "evil.example:80"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": "127.0.0.1@evil.example"},
    {"Host": "[::1"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"},
)


@attack("client", seconds=90)
async def pages_of_others_at_the_inspector(scale: Scale) -> str:
    """Names that lead here, pages of other sites, no token, and paths that lead out of the files of the page."""
    answers = Counter[int]()
    async with developing() as dev:
        host, port = dev.page.removeprefix("http://"), dev.page.rpartition(":")[2]
        knowing = {"Host": host, "X-Dovetail-Token": dev.token}
        for path in PATHS:
            for method in ("GET", "POST"):
                for foreign in FOREIGN:
                    status, headers, body = await dev.ask(
                        http(method, f"{path}?token={dev.token}", {**knowing, **foreign}), port
                    )
                    answers[status] += 1
                    if (
                        status == 200
                        or "access-control-allow-origin" in headers
                        or dev.token.encode() in body
                    ):
                        raise GotThrough(
                            f"{method} {path} with {foreign} was answered {status} {body[:200]!r}"
                        )
                status, _, body = await dev.ask(http(method, path, {"Host": host}), port)
                answers[status] += 1
                if status == 200 and path != "/main.js":
                    raise GotThrough(
                        f"{method} {path} without the token was answered {status} {body[:200]!r}"
                    )
        status, _, body = await dev.ask(http("GET", "/api/state", knowing), port)
        if status != 200 or b"loud" not in body:
            raise GotThrough(f"the page itself was answered {status} {body[:200]!r}")
        await _at_the_server(dev, answers)
    return f"answers {dict(sorted(answers.items()))}"


async def _at_the_server(dev: Dev, answers: Counter[int]) -> None:
    """The server that is being written is for this machine, too; for pages of this machine as well."""
    found = re.fullmatch(r"http://(.+:(\d+))/mcp", dev.url)
    assert found is not None
    message = modern("tools/call", {"name": "echo", "arguments": {"text": "x"}})
    for foreign in ({}, *FOREIGN[:-2]):
        data = http(headers={"Host": found[1], **modern_headers(message), **foreign}, body=message)
        status, _, body = await dev.ask(data, found[2])
        answers[status] += 1
        if (status == 200) != (not foreign):
            raise GotThrough(f"a call with {foreign} was answered {status} {body[:200]!r}")
