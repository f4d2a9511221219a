"""The HTTP side of the inspector: the files of its page, the requests of the page, and a stream of events."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import msgspec

from ..core.limits import SharedLimit
from ..errors import DovetailError, TransportError
from .inspected_server import problem_of
from .inspector import Inspector
from .page_api import ROUTES, Download
from .page_guard import ALWAYS, POLICY, TOKEN_HEADER, PageGuard

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..transports.bind_address import BindAddress
    from ..transports.http.server.http_exchange import Exchange, Headers, ResponseSink

STREAMS: Final = 16
"""Open pages."""
HEADER_SIZE: Final = 32 << 10
"""Bytes of the header block of a request; its URL contains the arguments of a completion."""
BODY_SIZE: Final = 64 << 20
"""The largest request of the page; files are sent as arguments."""
HEARTBEAT: Final = 15.0
"""Seconds after which a stream without events gets a comment."""


_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_JSON: Final = "application/json"


class InspectorApp:
    """Serves one inspector."""

    def __init__(self, inspector: Inspector) -> None:
        self.inspector = inspector
        self._guard = PageGuard(inspector.token)
        self._streams = 0
        self._files = _read_files()

    @asynccontextmanager
    async def served(self, address: BindAddress) -> AsyncGenerator[str]:
        """Serve the inspector and give the link that opens it; stop its child processes at the end."""
        from .page_hosting import served

        try:
            async with served(self, address, max_header_bytes=HEADER_SIZE) as (host, port):
                name = f"[{host}]" if ":" in host else host
                yield f"http://{name}:{port}/?token={self.inspector.token}"
        finally:
            await self.inspector.close()

    async def handle(self, inner: Exchange) -> None:
        """Answer one request."""
        exchange = _Exchange(inner)
        path, method = inner.path, inner.method
        refused = self._guard.refusal(exchange.headers, navigation=path == "/" and method == "GET")
        if refused is not None:
            await exchange.text(403, refused)
        elif path == "/events":
            await self._events(exchange)
        elif path.startswith("/api/"):
            await self._answer(exchange, method, path[5:])
        elif method not in ("GET", "HEAD"):
            await exchange.text(405, "this path accepts only GET")
        elif path == "/":
            await self._page(exchange)
        elif path.startswith("/app/"):
            await self._document(exchange, path[5:])
        else:
            await self._file(exchange, path.removeprefix("/"))

    # --- the page ---------------------------------------------------------------------------------------------------

    async def _page(self, exchange: _Exchange) -> None:
        token = exchange.query.get("token")
        known = token is not None and self._guard.knows(token)
        if not known and not (token is None and self._guard.visited(exchange.headers)):
            await exchange.text(
                403, "the token is missing or old: open the inspector with the link that it has printed"
            )
            return
        more = (("set-cookie", self._guard.cookie(exchange.port)),) if known else ()
        await exchange.send(200, self._files["index.html"], _TYPES["html"], more)

    async def _file(self, exchange: _Exchange, name: str) -> None:
        data = self._files.get(name)
        if data is None or name == "index.html":
            await exchange.text(404, "not found")
            return
        await exchange.send(200, data, _TYPES[name.rpartition(".")[2]])

    async def _document(self, exchange: _Exchange, word: str) -> None:
        """Respond with the document of an MCP App, which runs in a sandboxed iframe."""
        document = self.inspector.take_document(word)
        if document is None:
            await exchange.text(404, "this document was already loaded")
            return
        await exchange.send(200, document.html, _TYPES["html"], policy=document.policy)

    # --- requests of the page ---------------------------------------------------------------------------------------

    def _knows(self, exchange: _Exchange) -> bool:
        return self._guard.knows(exchange.headers.get(TOKEN_HEADER, ""))

    async def _answer(self, exchange: _Exchange, method: str, name: str) -> None:
        if not self._knows(exchange):
            await exchange.text(
                403, "the token is missing or old: open the link that the inspector has printed"
            )
            return
        handler = ROUTES.get((method, name))
        if handler is None:
            await exchange.text(404, "not found")
            return
        try:
            asked: Any = dict(exchange.query)
            if method == "POST":
                asked = msgspec.json.decode(await exchange.body() or b"{}", type=dict[str, Any])
            found = await handler(self.inspector, asked)
        except KeyError as error:
            await exchange.json(400, {"error": {"kind": "invalid", "message": f"{error} is missing"}})
        except (DovetailError, ValueError, TypeError, RecursionError, msgspec.MsgspecError) as error:
            await exchange.json(400, {"error": problem_of(error)})
        else:
            if isinstance(found, Download):
                shown = f'attachment; filename="{found.name}"'
                await exchange.send(200, found.data, found.kind, (("content-disposition", shown),))
            else:
                await exchange.json(200, {} if found is None else found)

    async def _events(self, exchange: _Exchange) -> None:
        """Send an event stream with the changes; it ends when the page closes the connection."""
        if not self._knows(exchange):
            await exchange.text(
                403, "the token is missing or old: open the link that the inspector has printed"
            )
            return
        if self._streams >= STREAMS:
            await exchange.text(503, "too many pages are open")
            return
        self._streams += 1
        listener = self.inspector.news.listen()
        gone = asyncio.ensure_future(exchange.disconnected())
        stream = exchange.stream()
        try:
            await stream.write(_event({"state": self.inspector.shown()}))
            while not gone.done():
                waiting = asyncio.ensure_future(listener.next(HEARTBEAT))
                await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    waiting.cancel()
                    break
                await stream.write(_event(waiting.result()))
        except TransportError:
            pass  # the page was closed
        finally:
            await stream.close()
            gone.cancel()
            self._streams -= 1
            self.inspector.news.leave(listener)


class _Exchange:
    """One request of the page and its answer."""

    def __init__(self, inner: Exchange) -> None:
        self._inner = inner
        self.headers = inner.headers
        self.query = dict(parse_qsl(inner.query))

    @property
    def port(self) -> int:
        """The port that the page was loaded from."""
        server = self._inner.scope.get("server")
        return server[1] if server else 0

    async def body(self) -> bytes:
        """Read the whole body, up to `BODY_SIZE` bytes."""
        return await self._inner.read(BODY_SIZE, SharedLimit(BODY_SIZE))

    async def disconnected(self) -> None:
        """Return when the page has closed the connection."""
        await self._inner.disconnected()

    def stream(self) -> ResponseSink:
        return self._inner.stream((("content-security-policy", POLICY), *ALWAYS))

    async def send(
        self, status: int, data: bytes, kind: str, more: Headers = (), policy: str = POLICY
    ) -> None:
        headers = (("cache-control", "no-store"), ("content-security-policy", policy), *ALWAYS, *more)
        await self._inner.answer(status, data, headers, ("content-type", kind))

    async def text(self, status: int, words: str) -> None:
        await self.send(status, words.encode(), "text/plain; charset=utf-8")

    async def json(self, status: int, value: Any) -> None:
        await self.send(status, msgspec.json.encode(value), _JSON)


def _event(value: Any) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def _read_files() -> dict[str, bytes]:
    root = files("dovetail.inspector") / "page"
    found: dict[str, bytes] = {}
    for folder, prefix in ((root, ""), (root / "views", "views/")):
        for one in folder.iterdir():
            if one.name.rpartition(".")[2] in _TYPES:
                found[prefix + one.name] = one.read_bytes()
    return found
