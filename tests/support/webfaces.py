"""HTTP, HTTP+SSE and WebSocket as links for `RawClient`, so that every suite over `FACES` runs over them too."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from .everything import build
from .rawclient import META, RawClient
from .waiting import until
from .web import Connection, Site, legacy_headers, modern_headers, served


class Posting:
    """A link that posts each message, in order, and hands over whatever comes back."""

    def __init__(self, client: RawClient, site: Site) -> None:
        self.client = client
        self.site = site
        self.session: str | None = None
        self._open: dict[Any, Connection] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._last: asyncio.Future[None] | None = None

    def send(self, message: bytes) -> None:
        before, self._last = self._last, asyncio.get_running_loop().create_future()
        try:
            data = json.loads(message)
        except ValueError:
            data = None  # rubbish is posted as it is
        self._start(self._post(data, message, before, self._last))

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _post(self, message: Any, data: bytes, before: Any, sent: asyncio.Future[None]) -> None:
        if before is not None:
            await asyncio.wait({before}, timeout=1)
        try:
            cancels = isinstance(message, dict) and message.get("method") == "notifications/cancelled"
            if cancels and self._modern(message):
                await self._hang_up(message["params"]["requestId"])
            else:
                await self._exchange(message, data, sent)
        finally:
            if not sent.done():
                sent.set_result(None)

    def _modern(self, message: Any) -> bool:
        meta = message.get("params", {}).get("_meta", {})
        return f"{META}protocolVersion" in meta or self.client.modern

    async def _hang_up(self, id: Any) -> None:
        """2026-07-28 over HTTP: closing the stream is how a request is cancelled."""
        connection = self._open.pop(id, None)
        if connection is not None:
            life = self.site.app.state
            working = {*life.running, *self.site.app.stateless_handler.listening}
            connection.writer.transport.abort()
            await until(lambda: any(task.done() for task in working))

    async def _exchange(self, message: Any, data: bytes, sent: asyncio.Future[None]) -> None:
        single = isinstance(message, dict)
        method = message.get("method") if single else None
        connection = await self.site.connect()
        if method is not None and self._modern(message):
            headers = modern_headers(message)
        elif method is None and self.client.modern:
            headers = modern_headers({"method": "rubbish"})
        else:
            headers = legacy_headers(None if method == "initialize" else self.client.revision, self.session)
        if single and "id" in message:
            self._open[message["id"]] = connection
        connection.request("POST", "/mcp", headers, data)
        # A call may take as long as it likes; whatever comes later must only not overtake it.
        asyncio.get_running_loop().call_later(0.02, lambda: sent.done() or sent.set_result(None))
        try:
            await self._read(connection)
            if method == "notifications/initialized":
                await self._listen()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # hung up by us
        finally:
            if single:
                self._open.pop(message.get("id"), None)
            await connection.close()

    async def _read(self, connection: Connection) -> None:
        head = await connection.head()
        self.session = head.headers.get("mcp-session-id", self.session)
        if head.headers.get("content-type") == "text/event-stream":
            async for event in connection.events():
                if event.data:
                    self.client.received(event.data)
        else:
            body = await connection.reader.readexactly(int(head.headers["content-length"]))
            if body:
                self.client.received(body)

    async def _listen(self) -> None:
        connection = await self.site.connect()
        connection.request("GET", "/mcp", legacy_headers(self.client.revision, self.session))
        assert (await connection.head()).status == 200
        self._start(self._follow(connection))

    async def _follow(self, connection: Connection) -> None:
        try:
            async for event in connection.events():
                if event.data:
                    self.client.received(event.data)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        self.client.lost(None)

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def over_http(client: RawClient) -> AsyncIterator[RawClient]:
    async with served(build()) as site:
        client.connected(Posting(client, site))
        yield client
        await client.close()


class Pair:
    """The HTTP+SSE pair as a link; posts go out one after the other."""

    def __init__(self, client: RawClient, site: Site) -> None:
        self._client = client
        self._site = site
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._ended = False

    async def open(self) -> None:
        stream = await self._site.connect()
        stream.request("GET", "/sse", {"Accept": "text/event-stream"})
        await stream.head()
        events = stream.events()
        first = await anext(events)
        assert first.event == "endpoint"
        assert first.data is not None
        self._tasks = [
            asyncio.create_task(self._read(events)),
            asyncio.create_task(self._write(first.data.decode())),
        ]

    async def _read(self, events: Any) -> None:
        async for event in events:
            assert event.event == "message"
            self._client.received(event.data)
        self._ended = True
        self._client.lost(None)

    async def _write(self, path: str) -> None:
        connection = await self._site.connect()
        while True:
            message = await self._waiting.get()
            found = await connection.ask("POST", path, {"Content-Type": "application/json"}, message)
            if self._ended and found.status == 404:
                return
            assert (found.status, found.body) == (202, b"")

    def send(self, message: bytes) -> None:
        self._waiting.put_nowait(message)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._client.lost(None)

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def over_sse(client: RawClient) -> AsyncIterator[RawClient]:
    async with served(build()) as site:
        link = Pair(client, site)
        await link.open()
        client.connected(link)
        yield client
        await client.close()


class Socket:
    """A WebSocket as a link."""

    def __init__(self, client: RawClient, socket: Any) -> None:
        self._client = client
        self._socket = socket
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]

    async def _read(self) -> None:
        try:
            while True:
                message = await self._socket.recv()
                assert isinstance(message, str), "the server sent a binary frame"
                self._client.received(message.encode())
        except ConnectionClosed:
            self._client.lost(None)

    async def _write(self) -> None:
        while True:
            await self._socket.send((await self._waiting.get()).decode())

    def send(self, message: bytes) -> None:
        self._waiting.put_nowait(message)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._client.lost(None)

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def over_websocket(client: RawClient) -> AsyncIterator[RawClient]:
    async with (
        served(build()) as site,
        connect(f"ws://127.0.0.1:{site.port}/mcp", subprotocols=["mcp"]) as socket,  # type: ignore[list-item]
    ):
        client.connected(Socket(client, socket))
        yield client
        await client.close()


WEB = {"http": over_http, "sse": over_sse, "websocket": over_websocket}
