"""Where a server is reached: an address and a port or a Unix socket, with TLS or without."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ....errors import DovetailError
from ....settings import HTTP_BACKLOG, HTTP_LOOK, HttpOptions
from ... import unix
from ...loopback import is_loopback

if TYPE_CHECKING:
    import ssl


class Place(Struct, frozen=True, kw_only=True):
    """What to bind, and what to serve there."""

    host: str = "127.0.0.1"
    port: int = 8000
    uds: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    json: bool = False
    """Say where that is to programs."""
    way: str = "http"
    """Which of the three that are served to tell of: "http", "sse" or "ws"."""

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.uds is not None or is_loopback(self.host)

    def secured(self) -> ssl.SSLContext | None:
        """What serves HTTPS here; None without a certificate.

        Raises:
            DovetailError: the certificate cannot be used.
        """
        if self.certfile is None:
            return None
        import ssl  # most servers have a proxy in front

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certfile, self.keyfile)
        except OSError as error:
            raise DovetailError(f"the certificate cannot be used: {error.strerror or error}") from None
        return context

    def address_of(self, bound: socket.socket) -> str | None:
        """The address every connection to ``bound`` comes in on; None where that may be one of several, or none."""
        host = "" if self.uds is not None else bound.getsockname()[0]
        return None if host in ("", "0.0.0.0", "::") else host

    def listen(self) -> socket.socket:
        """A listening socket. A Unix socket that nobody listens on any more is replaced.

        Raises:
            DovetailError: the address is taken or does not exist.
        """
        listener = self._bind()
        listener.listen(HTTP_BACKLOG)
        return listener

    def reserve(self) -> socket.socket:
        """Hold the address for a host that binds it again itself, with ``SO_REUSEPORT``.

        The socket does not listen, so no connection is ever given to it.

        Raises:
            DovetailError: the address is taken or does not exist.
        """
        # With SO_REUSEPORT two servers of one user would share a port without a word: ask for it alone first.
        self.listen().close()
        if self.uds is not None:
            self.remove()
            return socket.socket(socket.AF_UNIX)
        return self._bind(shared=True)

    def _bind(self, *, shared: bool = False) -> socket.socket:
        listener: socket.socket | None = None
        try:
            if self.uds is not None:
                return unix.bind(self.uds)
            if not 0 <= int(self.port) <= 65535:  # of a larger one getaddrinfo takes the last 16 bits
                raise ValueError("a port is a number from 0 to 65535")
            family, kind, protocol, _, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM
            )[0]
            # asyncio's own loop sends small answers at once only on sockets that say they are TCP's.
            listener = socket.socket(family, kind, protocol)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind(address)
        except (OSError, ValueError) as error:
            if listener is not None:
                listener.close()
            where = self.uds if self.uds is not None else f"{self.host}:{self.port}"
            why = getattr(error, "strerror", None) or error
            raise DovetailError(f"cannot serve on {where}: {why}") from None
        return listener

    async def reachable(self, bound: socket.socket) -> None:
        """Return when somebody listens there. Hosts do not say so: whoever gets through knows."""
        while True:
            try:
                if self.uds is not None:
                    _, writer = await asyncio.open_unix_connection(self.uds)
                else:
                    _, writer = await asyncio.open_connection(*bound.getsockname()[:2])
            except OSError:
                await asyncio.sleep(HTTP_LOOK)
            else:
                writer.close()
                return

    def announce(self, bound: socket.socket, options: HttpOptions) -> None:
        """Say where the server is, to whoever started us."""
        say(self.announcement(bound, options))

    def announcement(self, bound: socket.socket, options: HttpOptions) -> str:
        scheme = f"{'ws' if self.way == 'ws' else 'http'}{'' if self.certfile is None else 's'}"
        path = options.sse_path or options.path if self.way == "sse" else options.path
        where = f"unix:{self.uds}"
        if self.uds is None:
            host, port = bound.getsockname()[:2]
            where = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        return serving_on(f"{where}{path}", json=self.json)

    def remove(self) -> None:
        """Leave no Unix socket behind."""
        if self.uds is not None:
            unix.remove(self.uds)


def serving_on(where: str, *, json: bool) -> str:
    """The line that says where a server is."""
    return msgspec.json.encode({"serving": where}).decode() if json else f"dovetail: serving on {where}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201
