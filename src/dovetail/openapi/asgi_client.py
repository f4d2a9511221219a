"""Call an ASGI application in this process, without a socket, and run its lifespan."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ..client.http_client import Send
from ..errors import DovetailError, TransportError

PIECES_AHEAD: Final = 16
"""Unread parts of a response."""


log = logging.getLogger("dovetail.openapi")

Message = dict[str, Any]
App = Callable[
    [dict[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


class Headers(dict[str, str]):
    """Headers with case-insensitive names."""

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key.lower(), default)

    def __getitem__(self, key: str) -> str:
        return super().__getitem__(key.lower())


class AsgiFetch:
    """A `client.http_client.Fetch` whose server is ``app``. Its lifespan runs while a session is open."""

    def __init__(self, app: App, *, run_lifespan: bool = True) -> None:
        self._app = app
        self._run_lifespan = run_lifespan

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[Send, None]:
        state: dict[str, Any] = {}
        if not self._run_lifespan:
            yield AsgiSession(self._app, state)
            return
        async with _lifespan(self._app, state):
            yield AsgiSession(self._app, state)


class AsgiSession:
    """Sends requests."""

    def __init__(self, app: App, state: dict[str, Any]) -> None:
        self._app = app
        self._state = state

    async def __call__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> AsgiResponse:
        parts = urlsplit(url)
        path = parts.path or "/"
        pairs = {"host": parts.netloc, **{name.lower(): value for name, value in headers.items()}}
        if body is not None:
            pairs["content-length"] = str(len(body))
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": parts.scheme,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in pairs.items()],
            "client": ("127.0.0.1", 0),
            "server": (parts.hostname or "localhost", parts.port or 80),
            "state": dict(self._state),
            "extensions": {},
        }
        response = AsgiResponse(self._app, scope, body or b"")
        try:
            async with asyncio.timeout(timeout):
                await response.begin()
        except TimeoutError:
            raise TransportError(
                f"the application did not respond within {timeout} s", cause="timeout"
            ) from None
        return response


class AsgiResponse:
    """One running request; see `client.http_client.Response`."""

    def __init__(self, app: App, scope: dict[str, Any], body: bytes) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self._body: bytes | None = body
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue(PIECES_AHEAD)
        self._gone = asyncio.Event()
        self._ended = False
        self._task = asyncio.create_task(self._run(app, scope), name="dovetail-asgi")

    async def _run(self, app: App, scope: dict[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._messages.put)
        except Exception:
            # The exception of the application is not visible anywhere else.
            log.exception("the application failed")
        finally:
            if not self._gone.is_set():
                await self._messages.put(None)

    async def _receive(self) -> Message:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def begin(self) -> None:
        try:
            message = await self._messages.get()
        except asyncio.CancelledError:
            self.close()
            raise
        if message is None:
            raise TransportError("the application sent no response", cause="eof")
        self.status = message["status"]
        self.headers = Headers(
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, value in message.get("headers", ())
        )

    async def read(self, limit: int) -> bytes:
        found = bytearray()
        async for piece in self.chunks():
            found += piece
            if len(found) > limit:
                raise TransportError(f"the response has more than {limit} bytes", cause="protocol")
        return bytes(found)

    async def chunks(self) -> AsyncIterator[bytes]:
        while not self._ended:
            message = await self._messages.get()
            if message is None:
                raise TransportError("the response of the application is incomplete", cause="reset")
            if message["type"] == "http.response.body":
                self._ended = not message.get("more_body", False)
                yield message.get("body", b"")

    def close(self) -> None:
        self._gone.set()
        if not self._ended:
            self._task.cancel()


@asynccontextmanager
async def _lifespan(app: App, state: dict[str, Any]) -> AsyncGenerator[None, None]:
    """The ASGI lifespan protocol. An application without it raises an exception at the first message."""
    receive: asyncio.Queue[Message] = asyncio.Queue()
    answers: asyncio.Queue[Message] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": state}
    task = asyncio.ensure_future(app(scope, receive.get, answers.put))
    if await _told(task, answers, receive, "startup"):
        try:
            yield
        finally:
            await _told(task, answers, receive, "shutdown")
            await asyncio.wait({task})
    else:
        yield


async def _told(
    task: asyncio.Future[None], answers: asyncio.Queue[Message], receive: asyncio.Queue[Message], what: str
) -> bool:
    """Return whether the application completed ``what``; False without a lifespan."""
    receive.put_nowait({"type": f"lifespan.{what}"})
    answer = asyncio.ensure_future(answers.get())
    try:
        await asyncio.wait({task, answer}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not answer.done():
            answer.cancel()
    if not answer.done() or answer.cancelled():
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("the application has no lifespan: %r", error)
        return False
    message = answer.result()
    if message["type"] == f"lifespan.{what}.failed":
        raise DovetailError(f"the {what} of the application failed: {message.get('message', '')[:1000]}")
    return True
