"""No host but the event loop: `..server.http1` on the sockets of asyncio (or uvloop). ``--server asyncio``.

One process, no WebSockets. A call that comes alone is answered soonest here; see docs/http.md.
"""

from __future__ import annotations

import asyncio
from email.utils import formatdate
from typing import Any

from ....errors import DovetailError
from ....settings import HTTP_BACKLOG, HTTP_CONNECTIONS, HTTP_TICK
from ..server.app import HttpApp
from ..server.http1 import Http1, Open
from .places import Place
from .process import Work


class Host:
    """The event loop of this process, listening."""

    def __init__(self, app: HttpApp, place: Place, *, face: str = "http1") -> None:
        if face == "asgi":
            raise DovetailError("there are no WebSockets without an HTTP server: use --server granian")
        self._secure = place.secured()
        self.bound = place.listen()
        self._place = place
        self._app = app
        self._patience = app.options.header_timeout
        self._shared = Open(app, "http" if self._secure is None else "https")
        self._listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def serve(self) -> None:
        loop, shared = asyncio.get_running_loop(), self._shared
        options: dict[str, Any] = {"sock": self.bound, "backlog": HTTP_BACKLOG, "ssl": self._secure}
        if self._secure is not None:
            options["ssl_handshake_timeout"] = self._patience
        create = loop.create_server if self._place.uds is None else loop.create_unix_server
        server = await create(self._connected, **options)
        try:
            self._look()
            self._listening.set_result(None)
            await self._stopped
            server.close()
            shared.closing = True
            for one in list(shared.connections):
                if one.idle_since is not None:
                    one.hang_up()
            if shared.connections:
                shared.emptied = loop.create_future()
                await shared.emptied
        finally:
            server.close()
            self._looking.cancel()
            for one in list(shared.connections):
                one.transport.abort()
            self.bound.close()
            self._place.remove()

    def _connected(self) -> asyncio.BaseProtocol:
        if len(self._shared.connections) >= HTTP_CONNECTIONS:
            return _Full()
        return Http1(self._shared)

    def _look(self) -> None:
        """Say what time it is, and close what has been idle for long."""
        loop, shared = asyncio.get_running_loop(), self._shared
        shared.date = f"date: {formatdate(usegmt=True)}\r\n".encode()
        before = loop.time() - self._patience
        for one in list(shared.connections):
            if one.idle_since is not None and one.idle_since < before:
                one.hang_up()
        self._looking = loop.call_later(min(HTTP_TICK, self._patience), self._look)

    async def started(self) -> None:
        await asyncio.shield(self._listening)
        self._app.life.reached()

    def stop(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(None)


class _Full(asyncio.Protocol):
    """A connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def run_workers(work: Work) -> int:
    raise DovetailError("several workers need a host of their own: use --server granian, or workers=1")
