"""Opening a link to each kind of target.

An opener is made once per client and opens as many links as the life of the client needs. What is heavy or optional
(httptools, websockets, subprocesses) is imported when the first such link is opened.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from msgspec import Struct

from ...core.channel import Link
from ...settings import Limits
from ..auth import Auth
from ..conversation import Conversation
from ..fetch import Fetch
from .targets import Target


class Options(Struct, frozen=True, kw_only=True):
    """What the application said about how to connect."""

    limits: Limits
    connect: float | None = 30.0
    headers: Mapping[str, str] = {}
    auth: Auth | None = None
    fetch: Fetch | None = None
    env: Mapping[str, str] | None = None
    cwd: str | os.PathLike[str] | None = None
    ssl: Any = None
    on_stderr: Callable[[bytes], None] | None = None


class Opener(Protocol):
    """Opens links to one target."""

    http: bool

    async def open(self, conversation: Conversation, transport: str) -> None:
        """Connect ``conversation``; ``transport`` is "stream", or which of HTTP's two: "streamable", "sse".

        Raises:
            DovetailError: it cannot be opened.
        """
        ...

    async def release(self, link: Link) -> None:
        """Wait until a closed link has let go of everything."""
        ...


class MemoryOpener:
    """A server in this process, on a pair of links."""

    http = False

    def __init__(self, target: Target, options: Options) -> None:
        self._service = target.service
        self._limits = options.limits
        self._sides: dict[int, tuple[Any, Any]] = {}

    async def open(self, conversation: Conversation, transport: str) -> None:
        from ...drivers.duplex import accept, lifespan
        from ...transports.memory import connect

        running = lifespan(self._service)
        await running.__aenter__()
        duplex = accept(self._service, scope={"transport": "memory"})
        link, _ = connect(conversation, duplex, limits=self._limits)
        self._sides[id(link)] = (duplex, running)

    async def release(self, link: Link) -> None:
        side = self._sides.pop(id(link), None)
        if side is not None:
            duplex, running = side
            await duplex.close()
            await running.__aexit__(None, None, None)


class ChildOpener:
    """A command run as a child process."""

    http = False

    def __init__(self, target: Target, options: Options) -> None:
        self._command = target.command
        self._options = options

    async def open(self, conversation: Conversation, transport: str) -> None:
        from ...transports import child

        options = self._options
        more: dict[str, Any] = {} if options.on_stderr is None else {"on_stderr": options.on_stderr}
        await child.spawn(
            conversation, self._command, env=options.env, cwd=options.cwd, limits=options.limits, **more
        )

    async def release(self, link: Link) -> None:
        await cast("Any", link).wait_closed()


class SocketOpener:
    """TCP, TLS or a Unix socket."""

    http = False

    def __init__(self, target: Target, options: Options) -> None:
        self._target = target
        self._options = options

    async def open(self, conversation: Conversation, transport: str) -> None:
        from ...transports import tcp

        target, options = self._target, self._options
        limits, timeout = options.limits, options.connect
        if target.kind == "unix":
            await tcp.connect(conversation, path=target.path, limits=limits, timeout=timeout)
            return
        context = options.ssl
        if target.tls and context is None:
            import ssl

            context = ssl.create_default_context()
        await tcp.connect(conversation, target.host, target.port, ssl=context, limits=limits, timeout=timeout)

    async def release(self, link: Link) -> None:
        # One turn of the loop lets the transport see its end; a peer that never takes our last bytes is cut.
        await asyncio.sleep(0)


class WebSocketOpener:
    """A WebSocket."""

    http = False

    def __init__(self, target: Target, options: Options) -> None:
        self._url = target.url
        self._options = options

    async def open(self, conversation: Conversation, transport: str) -> None:
        from ...transports import websocket

        options = self._options
        headers = dict(options.headers)
        if options.auth is not None:
            headers.update(await options.auth.headers(self._url))
        await websocket.connect(
            conversation,
            self._url,
            headers=headers,
            limits=options.limits,
            timeout=options.connect,
            ssl=options.ssl,
        )

    async def release(self, link: Link) -> None:
        await cast("Any", link).wait_closed()


class HttpOpener:
    """Streamable HTTP of every revision, and the HTTP+SSE pair of 2024-11-05."""

    http = True

    def __init__(self, target: Target, options: Options) -> None:
        self._url = target.url
        self._options = options

    async def open(self, conversation: Conversation, transport: str) -> None:
        from ...transports.http.client import link as client

        options = self._options
        make = client.SseLink if transport == "sse" else client.StreamableLink
        link = make(
            conversation,
            self._url,
            headers=options.headers,
            auth=options.auth,
            fetch=options.fetch,
            limits=options.limits,
            ssl=options.ssl,
        )
        await link.open()

    async def release(self, link: Link) -> None:
        await cast("Any", link).wait_closed()


_OPENERS: dict[str, Callable[[Target, Options], Opener]] = {
    "memory": MemoryOpener,
    "child": ChildOpener,
    "tcp": SocketOpener,
    "unix": SocketOpener,
    "websocket": WebSocketOpener,
    "http": HttpOpener,
}


def opener_for(target: Target, options: Options) -> Opener:
    """The opener of this kind of target; a target may be its own."""
    return target.service if target.kind == "opener" else _OPENERS[target.kind](target, options)
