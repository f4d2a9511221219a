"""A small HTTP server whose answers a test decides, byte for byte if need be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

JSON = {"Content-Type": "application/json"}
EVENTS = {"Content-Type": "text/event-stream"}


@dataclass
class Request:
    verb: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        return json.loads(self.body) if self.body else {}

    @property
    def method(self) -> str:
        return self.message.get("method", "")

    @property
    def id(self) -> Any:
        return self.message.get("id")


@dataclass
class Reply:
    """``drop`` closes without an answer, ``hang`` keeps still; pieces of ``stream`` follow the head as chunks."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    drop: bool = False
    hang: bool = False
    stream: AsyncIterator[bytes] | None = None


Handler = Callable[[Request], Reply | Awaitable[Reply]]


def result(request: Request, value: Any, **headers: str) -> Reply:
    body = json.dumps({"jsonrpc": "2.0", "id": request.id, "result": value}).encode()
    return Reply(200, {**JSON, **headers}, body)


def error(request: Request, code: int, status: int = 200, data: Any = None, id: Any = ...) -> Reply:
    problem = {"code": code, "message": "no", **({"data": data} if data else {})}
    message = {"jsonrpc": "2.0", "id": request.id if id is ... else id, "error": problem}
    return Reply(status, dict(JSON), json.dumps(message).encode())


class FakeHttp:
    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.requests: list[Request] = []
        self.connections = 0
        self.hanging = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def heard(self, verb: str = "POST") -> list[str]:
        return [request.method for request in self.requests if request.verb == verb]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while (request := await self._read(reader)) is not None:
                self.requests.append(request)
                made = self.handler(request)
                reply = made if isinstance(made, Reply) else await made
                if reply.hang:
                    self.hanging += 1
                    await reader.read()
                    self.hanging -= 1
                    return
                if reply.drop:
                    return
                await self._write(writer, reply)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self._tasks.discard(task)

    async def _read(self, reader: asyncio.StreamReader) -> Request | None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        verb, path, _ = first.split(" ", 2)
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
        }
        return Request(verb, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))

    async def _write(self, writer: asyncio.StreamWriter, reply: Reply) -> None:
        headers = dict(reply.headers)
        if reply.stream is None:
            headers["Content-Length"] = str(len(reply.body))
        else:
            headers["Transfer-Encoding"] = "chunked"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {reply.status} X\r\n{lines}\r\n".encode() + reply.body)
        await writer.drain()
        if reply.stream is not None:
            async for piece in reply.stream:
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))


@asynccontextmanager
async def serving(handler: Handler, port: int = 0) -> AsyncIterator[tuple[FakeHttp, str]]:
    fake = FakeHttp(handler)
    server = await asyncio.start_server(fake.serve, "127.0.0.1", port)
    try:
        yield fake, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()
        await fake.close()


INITIALIZED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}, "resources": {"subscribe": True}, "logging": {}},
    "serverInfo": {"name": "fake", "version": "1"},
}
DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}, "resources": {}},
    "ttlMs": 0,
    "cacheScope": "private",
    "resultType": "complete",
}
ECHO = {"name": "echo", "inputSchema": {"type": "object"}}


def legacy(request: Request) -> Reply:
    """A legacy server with sessions and no event stream."""
    if request.verb == "GET":
        return Reply(405)
    if request.verb == "DELETE":
        return Reply(204)
    return legacy_post(request)


def legacy_post(request: Request) -> Reply:
    match request.method:
        case "initialize":
            return result(request, INITIALIZED, **{"Mcp-Session-Id": "s1"})
        case "tools/list":
            return result(request, {"tools": [ECHO]})
        case "tools/call":
            text = json.dumps(request.message["params"].get("arguments"))
            return result(request, {"content": [{"type": "text", "text": text}]})
        case _ if request.id is None:
            return Reply(202)
        case _:
            return error(request, -32601)


def modern(request: Request) -> Reply:
    match request.method:
        case "server/discover":
            return result(request, DISCOVERED)
        case "tools/list":
            return result(
                request, {"tools": [ECHO], "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
            )
        case "tools/call":
            text = json.dumps(request.message["params"].get("arguments"))
            return result(request, {"content": [{"type": "text", "text": text}], "resultType": "complete"})
        case _:
            return error(request, -32601, 404)
