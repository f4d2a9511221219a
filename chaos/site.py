"""A live server over HTTP or stdio, a faulty client, and a bystander that must not be affected."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from attacks.victim import Json, Wire, call, free_port, modern

from dovetail import Client, DovetailError
from dovetail.settings import Reconnect, Timeouts

from .report import Broken

SERVER = Path(__file__).with_name("chaos_server.py")
QUICK = Reconnect(initial_delay=0.02, max_delay=0.2, max_attempts=None)
PATIENT = Timeouts(connect=10, idle=10, total=20)


def tool(name: str, **arguments: Any) -> Json:
    return modern("tools/call", {"name": name, "arguments": arguments})


def code_of(answer: Json) -> int | None:
    return answer["error"]["code"] if "error" in answer else None


def refusal_of(answer: Json) -> int | None:
    """The refusal code of a response, or the one in the data of a JSON-RPC error."""
    return answer["error"]["data"].get("refusalCode", code_of(answer)) if "error" in answer else None


class Line:
    """The faulty client, on a separate connection or pipe."""

    async def say(self, data: bytes) -> Json:
        """Send these bytes as one message, and return the answer."""
        raise NotImplementedError

    async def ask(self, name: str, **arguments: Any) -> Json:
        raise NotImplementedError


class HttpLine(Line):
    def __init__(self, port: int) -> None:
        self._port = port
        self._wire: Wire | None = None

    async def wire(self) -> Wire:
        return Wire(*await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 26))

    async def say(self, data: bytes) -> Json:
        if self._wire is None:
            self._wire = await self.wire()
        self._wire.send(data)
        status, headers, body = await self._wire.response()
        if not status or headers.get("connection") == "close":
            self.drop()
        if not status:
            raise ConnectionError("there was no answer")
        return {**json.loads(body), "status": status}

    async def ask(self, name: str, **arguments: Any) -> Json:
        return await self.say(call(name, **arguments))

    def drop(self) -> None:
        if self._wire is not None:
            self._wire.drop()
            self._wire = None


class PipeLine(Line):
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.stdin, self.stdout = process, process.stdin, process.stdout
        self._kept: list[Json] = []

    async def say(self, data: bytes) -> Json:
        self.stdin.write(data + b"\n")
        return await self.until(lambda message: "id" in message or "error" in message)

    async def answer(self, id: str) -> Json:
        """The answer to a request that was written before; what comes before it is kept."""
        return await self.until(lambda message: message.get("id") == id)

    async def until(self, wanted: Callable[[Json], bool]) -> Json:
        """Return the next message that is ``wanted``; others are stored."""
        for message in self._kept:
            if wanted(message):
                self._kept.remove(message)
                return message
        while True:
            message = json.loads(await self.hear())
            if wanted(message):
                return message
            self._kept.append(message)

    async def hear(self) -> bytes:
        line = await self.stdout.readline()
        if not line:
            raise ConnectionError("the server has ended")
        return line

    async def ask(self, name: str, **arguments: Any) -> Json:
        return await self.say(json.dumps(tool(name, **arguments)).encode())


class Site:
    """Where a scenario takes place."""

    def __init__(
        self, transport: str, process: asyncio.subprocess.Process, port: int, target: Any, folder: Path
    ) -> None:
        self.transport, self.process, self.port, self.target, self.folder = (
            transport, process, port, target, folder,
        )  # fmt: skip
        self.slack = 1.0
        """How many times as long as allowed anything may take, on a machine that is busy with something else."""
        self.line: Line = HttpLine(port) if transport == "http" else PipeLine(process)

    def client(self, target: Any = None, **options: Any) -> Client:
        usual: dict[str, Any] = {"reconnect": QUICK, "timeouts": PATIENT}
        if self.transport == "stdio":
            usual["env"] = dict(os.environ)  # its server has a separate process, and no guards
        return Client(target or self.target, **usual, **options)


def children(pid: int) -> set[int]:
    try:
        return {int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except OSError:
        return set()


class Bystander:
    """An honest client: what it is notified is kept must be there, and its calls must not fail."""

    def __init__(self, client: Client, *, writes: bool) -> None:
        self._client, self.writes = client, writes
        self.acknowledged: list[str] = []
        self.failures: list[str] = []

    async def live(self, stop: asyncio.Event) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            word = f"word-{number}"
            try:
                if number % 5 or not (self.writes or number < 20):
                    await self._client.call_tool("echo", {"text": word})
                else:
                    await self._client.call_tool("note", {"word": word})
                    self.acknowledged.append(word)
            except DovetailError as error:
                self.failures.append(f"{type(error).__name__}: {error}")
            await asyncio.sleep(0.02)

    async def lost(self) -> int:
        """How many of the acknowledged words are gone."""
        found = [await self._client.call_tool("noted", {"word": word}) for word in self.acknowledged]
        return sum(result.text != "true" for result in found)


async def refused(
    ask: Callable[[], Awaitable[Json]], *codes: int, seconds: float = 20.0
) -> tuple[int, float]:
    """Ask until the answer has one of ``codes``: which one, and after how many milliseconds."""
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        code = refusal_of(await ask())
        if code in codes:
            return code, (time.monotonic() - begun) * 1000
    raise Broken(f"nobody was refused with {codes} within {seconds} s")


async def served(ask: Callable[[], Awaitable[Any]], *, within: float = 20.0) -> float:
    """Ask until the answer is a result: after how many milliseconds."""
    begun = time.monotonic()
    while time.monotonic() - begun < within:
        with contextlib.suppress(OSError, DovetailError, TimeoutError):
            answer = await ask()
            if not isinstance(answer, dict) or "error" not in answer:
                return (time.monotonic() - begun) * 1000
        await asyncio.sleep(0.01)
    raise Broken(f"nobody was served again within {within} s")


@asynccontextmanager
async def site(transport: str, folder: Path, workers: int = 1, **environment: str) -> AsyncIterator[Site]:
    """Start the server; all processes use the same store file."""
    place = folder / "small" if (folder / "small").exists() else folder
    store = f"sqlite:///{place / 'store.db'}"
    port = free_port()
    command = [sys.executable, "-m", "dovetail.cli.main", "run", str(SERVER), "--store", store]
    over = ["--http", "--port", str(port), "--workers", str(workers)] if transport == "http" else []
    with (folder / "stderr.txt").open("ab") as said:
        process = await asyncio.create_subprocess_exec(
            *command,
            *over,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=said,
            limit=1 << 28,
            start_new_session=True,
            env={**os.environ, **environment},
        )
    # Over stdio each client has a separate process; they share only the store file.
    target: Any = f"http://127.0.0.1:{port}/mcp" if transport == "http" else command
    found = Site(transport, process, port, target, folder)
    try:
        await served(lambda: found.line.ask("echo", text="there?"))
        yield found
    finally:
        if isinstance(found.line, HttpLine):
            found.line.drop()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        assert process.stdin is not None
        process.stdin.close()
