"""Accept HTTP connections on one listening socket, in this event loop."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import TYPE_CHECKING, Any, Final

from ...settings import HttpOptions
from ..bind_address import HTTP_BACKLOG
from .server.builtin_server import ConnectionTable, HttpHandler, WebSocketHandler
from .server.http_exchange import HTTP_FLUSH

if TYPE_CHECKING:
    import ssl

_REMOVES_SOCKETS: Final[bool] = sys.version_info >= (3, 13)
"""Whether asyncio deletes a Unix socket when it stops listening."""


class HttpListener:
    """Serves ``handler`` on the connections of one listening socket.

    The caller binds the socket and closes it: in a process with workers it belongs to their parent.
    """

    def __init__(
        self,
        handler: HttpHandler,
        bound: socket.socket,
        *,
        options: HttpOptions,
        max_header_bytes: int,
        tls: ssl.SSLContext | None = None,
        websockets: WebSocketHandler | None = None,
    ) -> None:
        self._bound = bound
        self._tls = tls
        self._header_timeout = options.header_timeout
        scheme = "http" if tls is None else "https"
        self._table = ConnectionTable(handler, scheme, options, max_header_bytes, websockets)
        self._server: asyncio.Server

    async def start(self) -> None:
        """Start accepting connections."""
        loop: Any = asyncio.get_running_loop()
        options: dict[str, Any] = {"sock": self._bound, "backlog": HTTP_BACKLOG}
        if self._tls is not None:
            options |= {"ssl": self._tls, "ssl_handshake_timeout": self._header_timeout}
        self._table.start()
        if self._bound.family != socket.AF_UNIX:
            self._server = await loop.create_server(self._table.protocol, **options)
            return
        if _REMOVES_SOCKETS and isinstance(loop, asyncio.BaseEventLoop):
            options["cleanup_socket"] = False  # the file belongs to the process that bound it
        self._server = await loop.create_unix_server(self._table.protocol, **options)

    def stop_accepting(self) -> None:
        """Accept no more connections. Requests in progress may finish."""
        self._server.close()

    async def close(self) -> None:
        """Close all connections: idle ones first, the others after their response or the timeout."""
        self.stop_accepting()
        try:
            await asyncio.wait_for(self._table.close(), HTTP_FLUSH)  # a client may not read
        except TimeoutError:
            pass
        finally:
            self._table.abort()
