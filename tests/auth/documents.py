"""A hand-written HTTP server for key sets, metadata and introspection. It counts requests and injects faults."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

Answer = Callable[[dict[str, str]], Any]


class Documents:
    """What lies where: JSON, bytes of a whole answer, or a function of the posted form."""

    def __init__(self) -> None:
        self.places: dict[str, Any] = {}
        self.asked: list[str] = []
        self.heads: list[str] = []
        self.url = ""
        self.held = asyncio.Event()
        """Answers wait for it."""
        self.held.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split()[1]
            size = next(
                (int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length")),
                0,
            )
            form = {
                name: values[0]
                for name, values in parse_qs((await reader.readexactly(size)).decode()).items()
            }
            self.asked.append(path)
            self.heads.append(head)
            await self.held.wait()
            writer.write(self._answer(path, form))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _answer(self, path: str, form: dict[str, str]) -> bytes:
        found = self.places.get(path)
        if callable(found):
            found = found(form)
        if isinstance(found, bytes):
            return found
        status = "404 Not Found" if found is None else "200 OK"
        body = json.dumps(found).encode()
        return (
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )


@asynccontextmanager
async def documents() -> AsyncIterator[Documents]:
    site = Documents()
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    site.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield site
    finally:
        site.held.set()
        server.close()
        await server.wait_closed()
