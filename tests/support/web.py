"""HTTP by hand: a server on a real socket, and a client that knows nothing but bytes.

Every JSON-RPC message that comes back is checked against the official schema of its revision.
"""

import asyncio
import itertools
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dovetail.settings import HttpOptions
from dovetail.transports.bind_address import BindAddress
from dovetail.transports.http.http_serving import HttpServer
from dovetail.transports.http.server.app import HttpApp
from dovetail.wire.sse import EventParser, SseEvent

from .rawclient import CAPABILITIES, META, MODERN
from .schemas import validate
from .waiting import until as until

BOTH = "application/json, text/event-stream"
Json = dict[str, Any]
_ids = itertools.count(1)


class Site:
    """A served app: where it is, and its insides."""

    def __init__(self, app: HttpApp, serving: HttpServer, address: Any) -> None:
        self.app = app
        self.address = address
        self.connections: list[Connection] = []
        self._serving = serving

    @property
    def port(self) -> int:
        return self.address[1]

    def end(self) -> None:
        """Begin to shut down, as a signal would."""
        self._serving.stop.request(self.app.options.shutdown_grace_period)

    async def connect(self, **options: Any) -> "Connection":
        if isinstance(self.address, str):
            pair = await asyncio.open_unix_connection(self.address, limit=1 << 26)
        else:
            pair = await asyncio.open_connection(*self.address[:2], limit=1 << 26, **options)
        self.connections.append(Connection(*pair))
        return self.connections[-1]


@asynccontextmanager
async def served(
    server: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    certfile: str | None = None,
    keyfile: str | None = None,
    **options: Any,
) -> AsyncIterator[Site]:
    """Serve on a free ``port`` as `server.run` does."""
    app = HttpApp(getattr(server, "dispatcher", server), HttpOptions(**options))
    where = BindAddress(host=host, port=port, certfile=certfile, keyfile=keyfile)
    bound = where.listen()
    address = bound.getsockname()
    serving, ready = HttpServer(app, where, bound), asyncio.Event()
    task = asyncio.create_task(serving.run(ready.set))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    site = Site(app, serving, address)
    try:
        yield site
    finally:
        waiting.cancel()
        site.end()
        await task
        bound.close()
        for connection in site.connections:
            await connection.close()


class Response:
    """The head of a response, and its body as far as it has been read."""

    def __init__(self, status: int, headers: list[tuple[str, str]]) -> None:
        self.status = status
        self.headers = dict(headers)
        self.body = b""

    @property
    def message(self) -> Json:
        assert self.headers["content-type"] == "application/json", self.headers
        return json.loads(self.body)


class Connection:
    """One TCP connection; requests go out as they are given."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def __aenter__(self) -> "Connection":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def request(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | list[tuple[str, str]],
        body: bytes | None = None,
    ) -> None:
        pairs = list(headers.items()) if isinstance(headers, dict) else list(headers)
        names = {name.lower() for name, _ in pairs}
        if "host" not in names:
            pairs.insert(0, ("Host", "127.0.0.1"))
        if body is not None and not names & {"content-length", "transfer-encoding"}:
            pairs.append(("Content-Length", str(len(body))))
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs), "", ""]
        self.writer.write("\r\n".join(lines).encode("latin-1") + (body or b""))

    async def head(self) -> Response:
        """The status line and headers of the next response."""
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = text.rstrip("\r\n").split("\r\n")
        pairs = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        return Response(int(first.split(" ")[1]), pairs)

    async def chunk(self) -> bytes:
        """The next chunk of a chunked body; empty at its proper end."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        data = await self.reader.readexactly(size)
        await self.reader.readexactly(2)
        return data

    async def response(self) -> Response:
        """The next response with its whole body."""
        found = await self.head()
        if "content-length" in found.headers:
            found.body = await self.reader.readexactly(int(found.headers["content-length"]))
        elif found.headers.get("transfer-encoding") == "chunked":
            while data := await self.chunk():
                found.body += data
        return found

    async def ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None = None
    ) -> Response:
        self.request(method, path, headers, body)
        return await self.response()

    async def events(self) -> AsyncIterator[SseEvent]:
        """The events of a stream whose head has been read; ends when the stream ends properly."""
        parser = EventParser(1 << 26)
        while data := await self.chunk():
            for event in parser.feed(data):
                yield event

    async def at_end(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionResetError:
            return True

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except (OSError, ssl.SSLError):
            pass


def modern(method: str, params: Json | None = None, *, id: Any = None, meta: Json | None = None) -> Json:
    whole = {
        f"{META}protocolVersion": MODERN,
        f"{META}clientCapabilities": CAPABILITIES[MODERN],
        **(meta or {}),
    }
    return request(method, {**(params or {}), "_meta": whole}, id=id)


def request(method: str, params: Json | None = None, *, id: Any = None) -> Json:
    message: Json = {"jsonrpc": "2.0", "id": next(_ids) if id is None else id, "method": method}
    return message if params is None else {**message, "params": params}


def modern_headers(message: Json) -> dict[str, str]:
    params = message.get("params", {})
    headers = {
        "Content-Type": "application/json",
        "Accept": BOTH,
        "MCP-Protocol-Version": params.get("_meta", {}).get(f"{META}protocolVersion", MODERN),
        "Mcp-Method": message["method"],
    }
    if message["method"] in ("tools/call", "prompts/get"):
        headers["Mcp-Name"] = params["name"]
    elif message["method"] == "resources/read":
        headers["Mcp-Name"] = params["uri"]
    return headers


def legacy_headers(revision: str | None, session: str | None = None) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": BOTH}
    if revision is not None and revision >= "2025-06-18":
        headers["MCP-Protocol-Version"] = revision
    if session is not None:
        headers["Mcp-Session-Id"] = session
    return headers


class Web:
    """Whole requests to one site, a connection each, with every answer checked against its schema."""

    def __init__(self, site: Site, path: str = "/mcp") -> None:
        self.site = site
        self.path = path

    async def ask(
        self, method: str, headers: dict[str, str], body: bytes | None = None, path: str | None = None
    ) -> Response:
        async with await self.site.connect() as connection:
            return await connection.ask(method, path or self.path, headers, body)

    async def modern(self, method: str, params: Json | None = None, **options: Any) -> Response:
        message = modern(method, params, **options)
        found = await self.ask("POST", modern_headers(message), json.dumps(message).encode())
        if found.headers.get("content-type") == "application/json":
            validate(found.body, MODERN, method=method)
        return found

    async def call(self, name: str, /, **arguments: Any) -> Json:
        found = await self.modern("tools/call", {"name": name, "arguments": arguments})
        assert found.status == 200, found.body
        return found.message["result"]

    async def initialize(
        self, revision: str, headers: dict[str, str] | None = None, **capabilities: Any
    ) -> tuple[str, Json]:
        """A new legacy session: its id and the result of initialize; `initialized` has been sent."""
        params = {
            "protocolVersion": revision,
            "capabilities": {**CAPABILITIES[revision], **capabilities},
            "clientInfo": {"name": "web", "version": "1"},
        }
        body = json.dumps(request("initialize", params)).encode()
        found = await self.ask("POST", legacy_headers(None) | (headers or {}), body)
        assert found.status == 200, found.body
        validate(found.body, revision, method="initialize")
        session = found.headers["mcp-session-id"]
        body = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
        ready = await self.ask("POST", legacy_headers(revision, session) | (headers or {}), body)
        assert (ready.status, ready.body) == (202, b"")
        return session, found.message["result"]

    async def legacy(
        self, revision: str, session: str | None, method: str, params: Json | None = None, **options: Any
    ) -> Response:
        body = json.dumps(request(method, params, id=options.pop("id", None))).encode()
        headers = legacy_headers(revision, session) | options.pop("headers", {})
        found = await self.ask("POST", headers, body)
        if found.headers.get("content-type") == "application/json":
            validate(found.body, revision, method=method)
        return found


def text(result: Json) -> str:
    return result["content"][0]["text"]


def messages(body: bytes) -> list[Json]:
    """The messages of an event stream that has been read to its end."""
    return [json.loads(event.data) for event in EventParser(1 << 26).feed(body) if event.data is not None]
