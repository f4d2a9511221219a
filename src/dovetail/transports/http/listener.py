"""Accept HTTP connections on one listening socket, in this event loop."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from ...drivers.heartbeat import Heartbeat
from ...settings import HTTP_BACKLOG, HTTP_CONNECTIONS, HTTP_FLUSH, HTTP_TICK
from .server.http1 import Http1, HttpHandler, Open

if TYPE_CHECKING:
    import ssl

_REMOVES_SOCKETS: Final[bool] = sys.version_info >= (3, 13)
"""Whether asyncio deletes a Unix socket when it stops to listen there."""

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def http_date(at: time.struct_time) -> str:
    """A UTC time as the ``Date`` header has it (RFC 9110, 5.6.7). `email.utils` would cost 0.4 MiB of memory."""
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    return f"{day}, {at.tm_mday:02} {month} {at.tm_year} {at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} GMT"


class HttpListener:
    """Serves ``handler`` on the connections of one listening socket.

    The caller binds the socket and closes it: in a process with workers it belongs to their parent.
    """

    def __init__(
        self,
        handler: HttpHandler,
        bound: socket.socket,
        *,
        tls: ssl.SSLContext | None = None,
        max_header_bytes: int,
        header_timeout: float,
    ) -> None:
        self._bound = bound
        self._tls = tls
        self._header_timeout = header_timeout
        self._shared = Open(handler, "http" if tls is None else "https", max_header_bytes)
        self._server: asyncio.Server
        self._heartbeat = Heartbeat(min(HTTP_TICK, header_timeout), self._tick)

    async def start(self) -> None:
        """Begin to accept connections."""
        loop: Any = asyncio.get_running_loop()
        options: dict[str, Any] = {"sock": self._bound, "backlog": HTTP_BACKLOG}
        if self._tls is not None:
            options |= {"ssl": self._tls, "ssl_handshake_timeout": self._header_timeout}
        self._tick()
        self._heartbeat.start()
        if self._bound.family != socket.AF_UNIX:
            self._server = await loop.create_server(self._protocol, **options)
            return
        if _REMOVES_SOCKETS and isinstance(loop, asyncio.BaseEventLoop):
            options["cleanup_socket"] = False  # the file belongs to the process that has bound it
        self._server = await loop.create_unix_server(self._protocol, **options)

    def stop_accepting(self) -> None:
        """Accept no further connection. Those that are open may finish what they have begun."""
        self._server.close()

    async def close(self) -> None:
        """End all connections: first the idle ones, then the others when they have ended or time is up."""
        self.stop_accepting()
        shared = self._shared
        shared.closing = True
        for connection in list(shared.connections):
            if connection.idle_since is not None:
                connection.hang_up()
        try:
            if shared.connections:
                shared.emptied = asyncio.get_running_loop().create_future()
                await asyncio.wait({shared.emptied}, timeout=HTTP_FLUSH)  # a client may read nothing
        finally:
            self._heartbeat.stop()
            for connection in list(shared.connections):
                connection.transport.abort()

    def _protocol(self) -> asyncio.BaseProtocol:
        if len(self._shared.connections) >= HTTP_CONNECTIONS:
            return _Refused()
        return Http1(self._shared)

    def _tick(self) -> bool:
        """Renew the ``Date`` header, and close connections that have been idle for too long."""
        shared = self._shared
        shared.date = f"date: {http_date(time.gmtime())}\r\n".encode()
        before = asyncio.get_running_loop().time() - self._header_timeout
        for connection in list(shared.connections):
            if connection.idle_since is not None and connection.idle_since < before:
                connection.hang_up()
        return True


class _Refused(asyncio.Protocol):
    """A connection beyond the limit: it is closed at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
