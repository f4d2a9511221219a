"""Programs of the original libraries as child processes, on Dovetail or on their own."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench import peers

from dovetail import Client, Timeouts
from tests.peers.environment import need
from tests.support.waiting import HANG

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
ORIGINALS = ("mcp1", "mcp2", "fastmcp2", "fastmcp3", "fastmcp4")
REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
TIMEOUTS = Timeouts(connect=HANG, idle=None, total=HANG)
RUN_MCP = "import runpy, sys; path, name = sys.argv[1:3]; sys.argv[1:] = []; runpy.run_path(path)[name].run()"
"""Runs a server that the file does not start, as the command of its library does."""


def python(original: str) -> str:
    """The Python that has the original library and what Dovetail needs."""
    need(f"compat-{original}")
    return str(peers.interpreter(f"compat-{original}"))


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": "0", **more}


def on_dovetail(original: str, *words: str) -> list[str]:
    return [python(original), "-m", "dovetail.cli.main", "run", *words]


def on_its_own(original: str, path: Path, name: str = "mcp") -> list[str]:
    return [python(original), "-c", RUN_MCP, str(path), name]


def over_stdio(line: list[str], revision: str, **options: Any) -> Client:
    """A client of a child process; what the child logs is collected by ``on_stderr``, or dropped."""
    options = {"env": environment(), "timeouts": TIMEOUTS, "on_stderr": lambda data: None, **options}
    return Client(line, revision=revision, discovery_timeout=HANG, validate="off", **options)


def over_http(url: str, revision: str, **options: Any) -> Client:
    return Client(url, revision=revision, timeouts=TIMEOUTS, validate="off", **options)


class Child:
    """A program that serves over HTTP."""

    url = ""
    log = ""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.reading: asyncio.Task[None] | None = None

    @property
    def origin(self) -> str:
        return "/".join(self.url.split("/")[:3])

    async def started(self) -> None:
        """Read the log until it reports the URL, then continue reading, so that the pipe never fills."""
        log = self.process.stderr
        assert log is not None
        while not self.url:
            text = (await log.readline()).decode()
            assert text, self.log
            self.log += text
            if found := re.search(r"serving on (\S+)", text):
                self.url = found[1]
        self.reading = asyncio.create_task(self._collect(log))

    async def _collect(self, log: asyncio.StreamReader) -> None:
        while data := await log.read(65536):
            self.log += data.decode()

    async def stop(self) -> int:
        """Stop it with SIGTERM; returns its exit status."""
        self.process.terminate()
        async with asyncio.timeout(HANG):
            if self.reading is not None:
                await self.reading
            return await self.process.wait()


@asynccontextmanager
async def served(line: list[str], **environ: str) -> AsyncIterator[Child]:
    """Run a program until it reports its URL."""
    process = await asyncio.create_subprocess_exec(
        *line, env=environment(**environ), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    child = Child(process)
    try:
        async with asyncio.timeout(HANG):
            await child.started()
        yield child
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if child.reading is not None:
            await child.reading
