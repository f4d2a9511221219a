"""The inspector as an ASGI application: the files of the page, its questions, and a stream of news."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import msgspec

from ..errors import DovetailError
from .api import ROUTES, Whole
from .bounds import BODY_SIZE, HEARTBEAT, STREAMS
from .connection import problem_of
from .guard import ALWAYS, POLICY, TOKEN_HEADER, Guard
from .inspector import Inspector

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..transports.http.host.places import Place

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

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
        self._guard = Guard(inspector.token)
        self._streams = 0
        self._files = _read_files()

    @asynccontextmanager
    async def served(self, place: Place) -> AsyncGenerator[str]:
        """Serve it; the link that opens it. What it has started ends with it."""
        from .hosting import hosted

        try:
            async with hosted(self, place) as (host, port):
                name = f"[{host}]" if ":" in host else host
                yield f"http://{name}:{port}/?token={self.inspector.token}"
        finally:
            await self.inspector.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = _Exchange(scope, receive, send)
        path, method = scope["path"], scope["method"]
        refused = self._guard.refusal(exchange.headers, navigation=path == "/" and method == "GET")
        if refused is not None:
            await exchange.text(403, refused)
        elif path == "/events":
            await self._events(exchange)
        elif path.startswith("/api/"):
            await self._answer(exchange, method, path[5:])
        elif method not in ("GET", "HEAD"):
            await exchange.text(405, "there is nothing to change here")
        elif path == "/":
            await self._page(exchange)
        elif path.startswith("/app/"):
            await self._document(exchange, path[5:])
        else:
            await self._file(exchange, path.removeprefix("/"))

    # --- the page -----------------------------------------------------------------------------------------------------

    async def _page(self, exchange: _Exchange) -> None:
        token = exchange.query.get("token")
        known = token is not None and self._guard.knows(token)
        if not known and not (token is None and self._guard.visited(exchange.headers)):
            await exchange.text(
                403, "open the inspector with the link it has printed: the token is missing or old"
            )
            return
        server = exchange.scope.get("server")
        more = ((b"set-cookie", self._guard.cookie(server[1] if server else 0).encode()),) if known else ()
        await exchange.send(200, self._files["index.html"], _TYPES["html"], more)

    async def _file(self, exchange: _Exchange, name: str) -> None:
        data = self._files.get(name)
        if data is None or name == "index.html":
            await exchange.text(404, "there is no such file")
            return
        await exchange.send(200, data, _TYPES[name.rpartition(".")[2]])

    async def _document(self, exchange: _Exchange, word: str) -> None:
        """The document of an MCP App: a world of its own, which knows nothing of this one."""
        document = self.inspector.take_document(word)
        if document is None:
            await exchange.text(404, "this document was fetched already")
            return
        await exchange.send(200, document.html, _TYPES["html"], policy=document.policy)

    # --- what the page asks -------------------------------------------------------------------------------------------

    def _knows(self, exchange: _Exchange) -> bool:
        return self._guard.knows(exchange.headers.get(TOKEN_HEADER, ""))

    async def _answer(self, exchange: _Exchange, method: str, name: str) -> None:
        if not self._knows(exchange):
            await exchange.text(403, "the token is missing or old")
            return
        handler = ROUTES.get((method, name))
        if handler is None:
            await exchange.text(404, "there is nothing here")
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
            if isinstance(found, Whole):
                shown = f'attachment; filename="{found.name}"'.encode()
                await exchange.send(200, found.data, found.kind, ((b"content-disposition", shown),))
            else:
                await exchange.json(200, {} if found is None else found)

    async def _events(self, exchange: _Exchange) -> None:
        """A line of JSON for each portion of news; it ends when the page leaves."""
        if not self._knows(exchange):
            await exchange.text(403, "the token is missing or old")
            return
        if self._streams >= STREAMS:
            await exchange.text(503, "too many pages are open")
            return
        self._streams += 1
        listener = self.inspector.news.listen()
        gone = asyncio.ensure_future(exchange.gone())
        try:
            await exchange.start(200, "application/x-ndjson")
            await exchange.line({"state": self.inspector.shown()})
            while not gone.done():
                waiting = asyncio.ensure_future(listener.next(HEARTBEAT))
                await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    waiting.cancel()
                    break
                await exchange.line(waiting.result())
        finally:
            gone.cancel()
            self._streams -= 1
            self.inspector.news.leave(listener)


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self._receive = receive
        self._send = send
        self.headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        self.query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))

    async def body(self) -> bytes:
        """All of it.

        Raises:
            ValueError: it is too large.
        """
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > BODY_SIZE:
                raise ValueError(f"more than {BODY_SIZE} bytes")
            if message["type"] == "http.disconnect" or not message.get("more_body"):
                return b"".join(parts)

    async def gone(self) -> None:
        """Return when the page has left."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def start(self, status: int, kind: str, more: Any = (), policy: str = POLICY) -> None:
        headers = [
            (b"content-type", kind.encode()), (b"cache-control", b"no-store"),
            (b"content-security-policy", policy.encode()), *ALWAYS, *more,
        ]  # fmt: skip
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, status: int, data: bytes, kind: str, more: Any = (), policy: str = POLICY) -> None:
        length = (b"content-length", str(len(data)).encode())
        await self.start(status, kind, (length, *more), policy)
        body = b"" if self.scope["method"] == "HEAD" else data
        await self._send({"type": "http.response.body", "body": body})

    async def text(self, status: int, words: str) -> None:
        await self.send(status, words.encode(), "text/plain; charset=utf-8")

    async def json(self, status: int, value: Any) -> None:
        await self.send(status, msgspec.json.encode(value), _JSON)

    async def line(self, value: Any) -> None:
        data = msgspec.json.encode(value) + b"\n"
        await self._send({"type": "http.response.body", "body": data, "more_body": True})


def _read_files() -> dict[str, bytes]:
    root = files("dovetail.inspector") / "page"
    found: dict[str, bytes] = {}
    for folder, prefix in ((root, ""), (root / "views", "views/")):
        for one in folder.iterdir():
            if one.name.rpartition(".")[2] in _TYPES:
                found[prefix + one.name] = one.read_bytes()
    return found
