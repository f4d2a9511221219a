"""The client transports of the installed ``mcp``, through Dovetail: its clients then reach servers of every revision.

A client of the original writes to a pair of memory streams. A `Proxy` at the other end serves it on the revision
that it speaks, and connects to the server with Dovetail's client.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial, wraps
from typing import Any, Unpack

import msgspec

from ..client.client_config import ClientOptions
from ..core.channel import Link
from ..drivers.duplex import accept, lifespan
from ..errors import DovetailError, TransportError
from ..gateway import Proxy
from ..settings import Limits, Timeouts
from ..transports import memory
from .intercept import replace_everywhere
from .memory_session import Messages
from .versions import HTTP_CLIENT, STREAMS, Sdk, find, installed, load


class Streams(AbstractAsyncContextManager[tuple[Any, Any]]):
    """A connection to ``target`` as a pair of memory streams: what `streams` returns.

    ``async with`` connects before the block begins. ``with`` connects in the background: a failure is an item of the
    stream that the client reads, and the connection ends in the background too.
    """

    def __init__(self, target: Any, options: ClientOptions) -> None:
        self._target, self._options = target, options
        self._ready: asyncio.Future[None]
        self._done: asyncio.Event
        self._task: asyncio.Task[None]

    def __enter__(self) -> tuple[Any, Any]:
        loop = asyncio.get_running_loop()
        self._ready, self._done = loop.create_future(), asyncio.Event()
        messages = Messages(_sdk())
        make: Any = load(STREAMS)
        inlet, read = make(math.inf)
        write, outlet = make(0)
        self._task = loop.create_task(self._serve(messages, inlet, outlet))
        return read, write

    def __exit__(self, *_: object) -> None:
        self._done.set()

    async def __aenter__(self) -> tuple[Any, Any]:
        pair = self.__enter__()
        try:
            await asyncio.shield(self._ready)
        except BaseException:
            await self.__aexit__()
            raise
        return pair

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()
        await asyncio.wait([self._task])

    async def _serve(self, messages: Messages, inlet: Any, outlet: Any) -> None:
        options: ClientOptions = {"timeouts": Timeouts(idle=None, total=None), **self._options}
        proxy = Proxy(self._target, required=True, **options)
        try:
            async with lifespan(proxy.dispatcher):
                self._ready.set_result(None)
                duplex = accept(proxy.dispatcher, scope={"transport": "memory"})
                end = _ClientEnd(messages, inlet)
                link, _ = memory.connect(end, duplex, limits=Limits())
                reading = asyncio.ensure_future(end.forward(outlet, link))
                done = asyncio.ensure_future(self._done.wait())
                try:
                    await asyncio.wait([reading, done, end.over], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    reading.cancel()
                    done.cancel()
                    await asyncio.wait([reading, done])
                    await duplex.close()
        except (DovetailError, OSError) as error:
            if not self._ready.done():
                self._ready.set_exception(error)
                self._ready.exception()  # with `with`, only the stream reports it
            inlet.send_nowait(error)
        finally:
            inlet.close()
            outlet.close()


class _ClientEnd:
    """Puts the messages of the proxy into the stream that the client reads."""

    def __init__(self, messages: Messages, inlet: Any) -> None:
        self._messages, self._inlet = messages, inlet
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connected(self, link: Link) -> None: ...

    def received(self, message: bytes) -> None:
        self._inlet.send_nowait(self._messages.wrap(msgspec.json.decode(message), {}))

    def oversized(self, limit: int) -> None:
        self._inlet.send_nowait(
            TransportError(f"a message of more than {limit} bytes was dropped", cause="protocol")
        )

    def ended(self) -> None:
        self.lost(None)

    def lost(self, error: TransportError | None) -> None:
        if not self.over.done():
            self.over.set_result(None)

    async def forward(self, outlet: Any, link: Link) -> None:
        """Send what the client writes, until it closes its stream."""
        async for item in outlet:
            link.send(self._messages.unwrap(item)[0])
            await link.drain()


def streams(target: Any, **options: Unpack[ClientOptions]) -> Streams:
    """Connect to ``target`` for a client of the installed ``mcp``; ``options`` are those of `dovetail.Client`.

    ```python
    async with dovetail.compat.streams("https://example.com/mcp") as (read, write):
        async with mcp.ClientSession(read, write) as session:
            await session.initialize()
    ```
    """
    return Streams(target, options)


def _sdk() -> Sdk:
    return installed(("mcp",), "dovetail.compat").sdk


def install() -> Callable[[], None]:
    """Replace the client transports of the installed ``mcp``, also where they were imported before.

    Returns a function that restores them.

    Raises:
        CompatError: ``mcp`` is not installed, or lacks ``stdio_client``.
    """
    sdk = _sdk()
    # Older versions lack one of the functions for HTTP, and the one for WebSocket needs another package.
    found = {kind: (load if kind == "stdio" else find)(path) for kind, path in sdk.clients.items()}
    undo = [
        replace_everywhere(function, _MAKE[kind](function, sdk))
        for kind, function in found.items()
        if function is not None
    ]

    def restore() -> None:
        for one in reversed(undo):
            one()

    return restore


# --- the functions of the original ------------------------------------------------------------------------------------


def _stdio(original: Any, sdk: Sdk) -> Any:
    @wraps(original)
    def stdio_client(server: Any, errlog: Any = None) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        options: ClientOptions = {"env": server.env, "cwd": server.cwd}
        if errlog is not None:
            options["on_stderr"] = partial(_write, errlog)
        return Streams([server.command, *server.args], options)

    return stdio_client


def _write(errlog: Any, data: bytes) -> None:
    errlog.write(data.decode("utf-8", "replace"))


def _http(original: Any, sdk: Sdk) -> Any:
    @wraps(original)
    @asynccontextmanager
    async def streamable_http_client(url: str, *, http_client: Any = None, **_: Any) -> AsyncGenerator[Any]:
        async with streams(url, http=http_client) as pair:
            yield (*pair, _no_session_id) if sdk.triple else pair

    return streamable_http_client


def _http_with_headers(original: Any, sdk: Sdk) -> Any:
    @wraps(original)
    @asynccontextmanager
    async def streamablehttp_client(
        url: str, headers: Mapping[str, str] | None = None, *args: Any, **options: Any
    ) -> AsyncGenerator[Any]:
        async with _over_http(url, headers, options) as pair:
            yield (*pair, _no_session_id)

    return streamablehttp_client


def _sse(original: Any, sdk: Sdk) -> Any:
    @wraps(original)
    @asynccontextmanager
    async def sse_client(
        url: str, headers: Mapping[str, str] | None = None, *args: Any, **options: Any
    ) -> AsyncGenerator[Any]:
        async with _over_http(url, headers, options) as pair:
            yield pair

    return sse_client


@asynccontextmanager
async def _over_http(
    url: str, headers: Mapping[str, str] | None, options: Mapping[str, Any]
) -> AsyncGenerator[tuple[Any, Any]]:
    """With the HTTP client of the original where the caller authenticates with it or makes it."""
    factory, auth = options.get("httpx_client_factory"), options.get("auth")
    if factory is None and auth is None:
        async with streams(url, headers=headers) as pair:
            yield pair
        return
    given: dict[str, Any] = {"headers": dict(headers or {}), "auth": auth}
    async with (factory or load(HTTP_CLIENT))(**given) as http, streams(url, http=http) as pair:
        yield pair


def _websocket(original: Any, sdk: Sdk) -> Any:
    @wraps(original)
    def websocket_client(url: str) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        return streams(url)

    return websocket_client


def _no_session_id() -> None:
    """The id of the session: None, because Dovetail manages the session."""


_MAKE: Mapping[str, Callable[[Any, Sdk], Any]] = {
    "stdio": _stdio,
    "http": _http,
    "http with headers": _http_with_headers,
    "sse": _sse,
    "websocket": _websocket,
}
