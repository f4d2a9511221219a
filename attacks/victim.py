"""A server of ours as a process to attack: started, watched from outside, ended by its id."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from .report import GotThrough
from .weight import resident

FILE = Path(__file__).with_name("victim_server.py")
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
BOTH = "application/json, text/event-stream"
Json = dict[str, Any]
_ids = itertools.count(1)


def modern(method: str, params: Json | None = None, **more: Any) -> Json:
    """A request of 2026-07-28."""
    meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
    return request(method, {**(params or {}), "_meta": meta}, **more)


def request(method: str, params: Json | None = None, **more: Any) -> Json:
    return {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": params or {}, **more}


def initialize(revision: str = "2025-11-25", **info: Any) -> Json:
    return request(
        "initialize",
        {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "attacker", "version": "0", **info},
        },
    )


def modern_headers(message: Json) -> dict[str, str]:
    headers = {"Mcp-Protocol-Version": MODERN, "Mcp-Method": message["method"]}
    name = message["params"].get("name") or message["params"].get("uri")
    return headers | ({"Mcp-Name": name} if name else {})


def http(
    method: str = "POST", path: str = "/mcp", headers: dict[str, str] | None = None, body: bytes | Json = b""
) -> bytes:
    """One HTTP request as bytes. A header set to the empty string is left out."""
    body = json.dumps(body).encode() if isinstance(body, dict) else body
    every = {
        "Host": "127.0.0.1",
        "Accept": BOTH,
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **(headers or {}),
    }
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in every.items() if value)]
    return "\r\n".join([*lines, "", ""]).encode() + body


def modern_post(method: str, params: Json | None = None) -> bytes:
    message = modern(method, params)
    return http(headers=modern_headers(message), body=message)


def call(name: str, **arguments: Any) -> bytes:
    """A tool called in one POST of 2026-07-28."""
    return modern_post("tools/call", {"name": name, "arguments": arguments})


class Wire:
    """One connection of an attacker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.patience = 10.0

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def line(self) -> Json | None:
        """The next message of a line-framed connection; None at its end."""
        line = await self.reader.readline()
        return json.loads(line) if line else None

    async def response(self) -> tuple[int, dict[str, str], bytes]:
        """Return the next HTTP response; status 0 after the timeout."""
        try:
            async with asyncio.timeout(self.patience):
                return await self._response()
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            return 0, {}, b""

    async def _response(self) -> tuple[int, dict[str, str], bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines)}
        if headers.get("transfer-encoding") == "chunked":
            body = await self._chunks()
        else:
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return int(first.split(" ")[1]), headers, body

    async def _chunks(self) -> bytes:
        body = b""
        while True:
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            body += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
            if not size:
                return body

    async def closed(self, seconds: float) -> bool:
        """Whether the other side hangs up within that time."""
        try:
            async with asyncio.timeout(seconds):
                while await self.reader.read(1 << 16):
                    pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True

    def drop(self) -> None:
        """Hang up without a word."""
        self.writer.transport.abort()


class Victim:
    """A running server."""

    def __init__(self, process: asyncio.subprocess.Process, address: tuple[str, int], host: str) -> None:
        self.process = process
        self.address = address
        self.host = host
        self.said = bytearray()
        self.wires: list[Wire] = []
        self.patience = 10.0
        """Seconds that answers may take."""

    async def connect(self) -> Wire:
        wire = Wire(*await asyncio.open_connection(*self.address, limit=1 << 26))
        wire.patience = self.patience
        self.wires.append(wire)
        return wire

    async def ask(self, name: str, **arguments: Any) -> Any:
        """Call a tool over HTTP as an honest client; its structured result or text."""
        wire = await self.connect()
        try:
            wire.send(call(name, **arguments))
            status, _, body = await wire.response()
        finally:
            wire.drop()
        if status != 200:
            raise GotThrough(f"an honest call of {name} was answered {status}: {body[:200]!r}")
        result = json.loads(_data(body))["result"]
        return result.get("structuredContent", result["content"][0]["text"] if result["content"] else None)

    async def session(self, revision: str = "2025-11-25", headers: dict[str, str] | None = None) -> str:
        """Open a legacy session over HTTP; its id."""
        wire = await self.connect()
        wire.send(http(headers=headers, body=initialize(revision)))
        _, got, body = await wire.response()
        if "mcp-session-id" not in got:
            raise GotThrough(f"an honest initialize got no session: {body[:200]!r}")
        id = got["mcp-session-id"]
        note: Json = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        wire.send(http(headers={**(headers or {}), "Mcp-Session-Id": id}, body=note))
        await wire.response()
        wire.drop()
        return id

    def memory(self) -> int:
        """Resident bytes of the process and its children."""
        return sum(resident(pid) for pid in _family(self.process.pid))

    async def settled(self, condition: Any, seconds: float) -> bool:
        """Whether the condition comes true within that time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if await condition():
                return True
            await asyncio.sleep(0.1)
        return False


def _data(body: bytes) -> bytes:
    """The last message of an answer, be it JSON or an event stream."""
    events = re.findall(rb"^data: (.+)$", body, re.MULTILINE)
    return events[-1] if events else body


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *itertools.chain.from_iterable(_family(int(child)) for child in children)]


@asynccontextmanager
async def serve(host: str, *more: str, **environment: str) -> AsyncIterator[Victim]:
    """The victim over ``http`` or ``tcp``."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(FILE),
        host,
        str(port),
        *more,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, **environment},
    )
    assert process.stderr is not None
    victim = Victim(process, ("127.0.0.1", port), host)
    listening = asyncio.create_task(_listen(process.stderr, victim))
    try:
        await _answers(victim)
        yield victim
    finally:
        for wire in victim.wires:
            wire.drop()
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        await listening


class Piped:
    """A server on pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.said = bytearray()
        self._out, self._in = process.stdout, process.stdin

    def tell(self, *messages: bytes) -> None:
        self.write(self.lines(*messages))

    def lines(self, *messages: bytes) -> bytes:
        return b"".join(message.replace(b"\n", b" ") + b"\n" for message in messages)

    def write(self, data: bytes) -> None:
        self._in.write(data)

    async def pour(self, data: bytes) -> None:
        """Say so much, as fast as it is taken."""
        for at in range(0, len(data), 1 << 20):
            self._in.write(data[at : at + (1 << 20)])
            await self._in.drain()

    async def answers(self, message: Json) -> None:
        """Ask as an honest client and read over whatever else is said until the answer comes."""
        self.tell(json.dumps(message).encode())
        while line := await self._out.readline():
            said = json.loads(line)
            if isinstance(said, dict) and said.get("id") == message["id"]:
                return
        raise GotThrough(f"it died: {self.said[-800:].decode(errors='replace')}")

    def memory(self) -> int:
        return resident(self.process.pid)


@asynccontextmanager
async def piped(**environment: str) -> AsyncIterator[Piped]:
    """The victim on stdio."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(FILE),
        "stdio",
        "0",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 26,
        env={**os.environ, **environment},
    )
    assert process.stderr is not None
    victim = Piped(process)
    listening = asyncio.create_task(_listen(process.stderr, victim))
    try:
        yield victim
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await listening


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def _answers(victim: Victim) -> None:
    """Return when the server accepts connections."""
    async with asyncio.timeout(20):
        while True:
            assert victim.process.returncode is None, f"the victim did not start: {victim.said.decode()}"
            try:
                (await victim.connect()).drop()
                return
            except OSError:
                await asyncio.sleep(0.05)


async def _listen(stream: asyncio.StreamReader, victim: Victim | Piped) -> None:
    while data := await stream.read(1 << 16):
        victim.said += data
        del victim.said[: -(1 << 22)]
