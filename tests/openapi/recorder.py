"""An HTTP server that keeps every request byte for byte, and answers as it is notified."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

Json = dict[str, Any]


class Recorded:
    """One request as it came over the wire."""

    def __init__(self, head: bytes, body: bytes) -> None:
        self.line, *lines = head.decode().split("\r\n")
        self.method, self.target, _ = self.line.split(" ")
        pairs = [line.partition(":") for line in lines if line]
        self.names = [name.lower() for name, _, _ in pairs]
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}
        self.body = body


class Recorder:
    """The received requests, and the response: status, media type, body."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.requests: list[Recorded] = []
        self.answer: tuple[int, str, bytes] = (200, "application/json", b"{}")
        self.headers: dict[str, str] = {}
        self.silent = False

    @property
    def last(self) -> Recorded:
        return self.requests[-1]


@asynccontextmanager
async def recorder() -> AsyncIterator[Recorder]:
    found: list[Recorder] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = Recorded(head, b"").headers.get("content-length", "0")
                found[0].requests.append(Recorded(head, await reader.readexactly(int(length))))
                if found[0].silent:
                    await reader.read()
                    return
                status, media, body = found[0].answer
                lines = {"Content-Type": media, "Content-Length": str(len(body)), **found[0].headers}
                told = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
                writer.write(f"HTTP/1.1 {status} X\r\n{told}\r\n".encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    found.append(Recorder(server.sockets[0].getsockname()[1]))
    async with server:
        yield found[0]


def spec(paths: Json, *, version: str = "3.1.0", **members: Any) -> Json:
    """A description with these paths."""
    info = {"title": "Shop", "version": "7"}
    return {"openapi": version, "info": info, "paths": paths, **members}


def operation(*parameters: Json, **members: Any) -> Json:
    return {"operationId": "call", "parameters": list(parameters), "responses": {}, **members}


def parameter(name: str, place: str, schema: Json | None = None, **members: Any) -> Json:
    found = {"name": name, "in": place, **members}
    if "content" not in members:
        found["schema"] = schema or {}
    return {**found, "required": True} if place == "path" else found


def body(media: str, schema: Any, *, required: bool = True, **members: Any) -> Json:
    return {"required": required, "content": {media: {"schema": schema, **members}}}


def json_answer(schema: Any) -> Json:
    return {"200": {"description": "", "content": {"application/json": {"schema": schema}}}}


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)
