"""A served file as a child process, spoken to line by line, with nothing of ours on the client's side."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from .rawclient import META, MODERN
from .stopwatch import Stopwatch
from .waiting import HANG, PAUSE

CLI = [sys.executable, "-m", "dovetail.cli.main"]


class Served:
    """A running child: `ask` it, read its `lines`, end it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[bytes] = []
        self._id = 0

    def send(self, method: str, params: dict[str, Any] | None = None) -> int:
        self._id += 1
        meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
        params = {**(params or {}), "_meta": meta}
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        return self._id

    async def answer(self, id: int) -> dict[str, Any]:
        assert self.process.stdout is not None
        async with asyncio.timeout(HANG):
            while True:
                line = await self.process.stdout.readline()
                assert line, "the server ended: " + (await self.stderr())
                self.lines.append(line)
                message = json.loads(line)  # output that is not JSON is an error
                if message.get("id") == id:
                    return message

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return await self.answer(self.send(method, params))

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return await self.ask("tools/call", {"name": name, "arguments": arguments})

    def start(self, name: str, **arguments: Any) -> int:
        return self.send("tools/call", {"name": name, "arguments": arguments})

    async def stderr(self) -> str:
        assert self.process.stderr is not None
        return (await self.process.stderr.read()).decode()

    async def says(self, words: str) -> None:
        """Wait until it writes a line with ``words`` to its stderr."""
        assert self.process.stderr is not None
        async with asyncio.timeout(HANG):
            while words not in (line := (await self.process.stderr.readline()).decode()):
                assert line, f"it ended without a word of {words!r}"

    async def ends(self, limit: float) -> float:
        """Wait for the end; the seconds it took, which must not be more than ``limit``."""
        watch, ending = Stopwatch(self.process.pid), asyncio.ensure_future(self.process.wait())
        async with asyncio.timeout(HANG):
            while not (await asyncio.wait([ending], timeout=PAUSE))[0]:
                watch.read()  # while it can still be seen how long it was kept from running
        took = watch.read()
        assert took < limit, f"it took {took:.2f} s"
        return took

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


@asynccontextmanager
async def started(*arguments: str, **options: Any) -> AsyncIterator[Served]:
    """``dovetail …`` as a child with three pipes; killed when the test is over."""
    process = await asyncio.create_subprocess_exec(
        *CLI,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        **options,
    )
    try:
        yield Served(process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.stdin is not None:
            process.stdin.close()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                await stream.read()
        await process.wait()
