"""A proxy that breaks connections at a given byte.

```python
async with Faults("http://127.0.0.1:8000/mcp", cut=120) as faults:
    client = Client(faults.url)      # each connection ends after 120 bytes of the server
```
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit


class Faults:
    """A TCP proxy for ``target`` (tcp, http or ws). Its attributes can be changed at any time, for all further bytes
    of the server.

    ``cut`` ends each connection after this number of bytes of the server; ``reset`` does so with an RST. ``delay``
    delays all data by this number of seconds; ``duplicate`` sends all data twice; ``silent`` forwards nothing.
    """

    def __init__(
        self,
        target: str,
        *,
        cut: int | None = None,
        reset: bool = False,
        delay: float = 0.0,
        duplicate: bool = False,
        silent: bool = False,
    ) -> None:
        parts = urlsplit(target)
        if not parts.hostname or not parts.port:
            raise ValueError(f"{target!r} needs a host and a port")
        self._parts = parts
        self._host, self._port = parts.hostname, parts.port
        self.cut = cut
        self.reset = reset
        self.delay = delay
        self.duplicate = duplicate
        self.silent = silent
        self.connections = 0
        """The number of connections so far."""
        self.passed = 0
        """Forwarded bytes of the server."""
        self._server: asyncio.Server
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The URL of the target through the proxy."""
        port = self._server.sockets[0].getsockname()[1]
        return urlunsplit(self._parts._replace(netloc=f"127.0.0.1:{port}"))

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._join(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # a proxy has no caller to report this to
        finally:
            self._tasks.discard(task)
            self._hang_up(writer)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(self._host, self._port)
        upwards = asyncio.ensure_future(_pump(reader, server_writer))
        try:
            await self._down(server_reader, writer)
        finally:
            upwards.cancel()
            await asyncio.wait([upwards])
            server_writer.close()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = 0
        while data := await reader.read(65536):
            if self.delay:
                await asyncio.sleep(self.delay)
            if self.silent:
                continue
            if self.duplicate:
                data += data
            if self.cut is not None:
                data = data[: max(0, self.cut - sent)]
            sent += len(data)
            self.passed += len(data)
            writer.write(data)
            await writer.drain()
            if self.cut is not None and sent >= self.cut:
                return

    def _hang_up(self, writer: asyncio.StreamWriter) -> None:
        connection: socket.socket | None = writer.get_extra_info("socket")
        if self.reset and connection is not None:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
