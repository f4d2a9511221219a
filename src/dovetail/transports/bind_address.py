"""The address that a server binds: a host and a port or a Unix socket, with TLS or without."""

from __future__ import annotations

import errno
import os
import socket
import sys
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, field

from ..errors import DovetailError
from ..settings import HttpOptions
from . import unix
from .loopback import is_loopback

if TYPE_CHECKING:
    import ssl

HTTP_BACKLOG: Final = 2048
"""Connections that may wait to be accepted."""


def default_port() -> int:
    """The port of a server that is given none: ``$PORT``, which hosting platforms set, else 8000.

    Raises:
        DovetailError: ``$PORT`` is not a port.
    """
    text = os.environ.get("PORT") or "8000"
    if not text.isdecimal() or int(text) > 65535:
        raise DovetailError(
            f"the variable PORT is {text!r}: set it to a number from 0 to 65535, or use --port"
        )
    return int(text)


class BindAddress(Struct, frozen=True, kw_only=True):
    """Where an HTTP server listens, and how it announces itself."""

    host: str = "127.0.0.1"
    port: int = field(default_factory=default_port)
    uds: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    client_ca: str | None = None
    """A file with the CA certificates that client certificates must be signed by.

    It requires ``certfile``.
    """
    json: bool = False
    """Announce the URL as JSON, for programs."""
    announce: str = "http"
    """Which URL to announce: "http", "sse" or "ws". One application serves all three."""

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.uds is not None or is_loopback(self.host)

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS settings of this address, or None without a certificate.

        Raises:
            DovetailError: a certificate cannot be used.
        """
        if self.certfile is None:
            if self.client_ca is not None:
                raise DovetailError("client certificates need TLS: set a server certificate (--certfile)")
            if self.keyfile is not None:
                raise DovetailError("a TLS key needs a certificate: set it (--certfile)")
            return None
        import ssl  # slow to import, and usually a reverse proxy handles TLS

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certfile, self.keyfile, password=self._no_password)
        except OSError as error:
            raise DovetailError(self._why_no_tls(error)) from None
        if self.client_ca is not None:
            try:
                context.load_verify_locations(self.client_ca)
            except OSError as error:
                reason = getattr(error, "reason", None) or error.strerror or error
                raise DovetailError(
                    f"the authority of client certificates {self.client_ca} cannot be used: {reason}"
                ) from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _no_password(self) -> str:
        # Without this function OpenSSL would prompt for the password on the terminal.
        raise DovetailError(
            f"the key {self.keyfile or self.certfile} is encrypted: decrypt it (openssl pkey -in KEY -out NEW)"
        )

    def _why_no_tls(self, error: OSError) -> str:
        """The message for a certificate or a key that cannot be loaded."""
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            return (
                f"the key {self.keyfile or self.certfile} does not belong to the certificate {self.certfile}"
            )
        files = self.certfile if self.keyfile is None else f"{self.certfile} or its key {self.keyfile}"
        of_openssl = getattr(error, "library", None) is not None  # then the error names no file
        hint = "both must be in PEM format (--certfile, --keyfile)" if of_openssl else error.strerror
        return f"the certificate {files} cannot be used: {hint}"

    def listen(self) -> socket.socket:
        """Return a listening socket. A stale Unix socket file is replaced.

        Raises:
            DovetailError: the address is in use or does not exist.
        """
        listener: socket.socket | None = None
        try:
            if self.uds is not None:
                listener = unix.bind(self.uds)
            else:
                if (
                    not 0 <= int(self.port) <= 65535
                ):  # getaddrinfo would take the last 16 bits of a larger one
                    raise ValueError("a port must be a number from 0 to 65535")
                # For a str, Python loads its IDNA tables (0.4 MiB), even if it is ASCII.
                host = self.host.encode() if self.host.isascii() else self.host
                found = socket.getaddrinfo(host, self.port, type=socket.SOCK_STREAM)
                family, kind, protocol, _, address = found[0]
                # asyncio sets TCP_NODELAY only on sockets that name their protocol.
                listener = socket.socket(family, kind, protocol)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(address)
            listener.listen(HTTP_BACKLOG)
        except (OSError, ValueError) as error:
            if listener is not None:
                listener.close()
            raise DovetailError(why_not_bound(self.host, self.port, self.uds, error)) from None
        return listener

    def announcement(self, bound: socket.socket, options: HttpOptions) -> str:
        """Return the line that announces the address of the server."""
        scheme = f"{'ws' if self.announce == 'ws' else 'http'}{'' if self.certfile is None else 's'}"
        path = options.sse_path or options.path if self.announce == "sse" else options.path
        where = f"unix:{self.uds}"
        if self.uds is None:
            host, port = bound.getsockname()[:2]
            where = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        return serving_on(f"{where}{path}", json=self.json)

    def socket_file(self) -> tuple[int, int] | None:
        """Return the identity of the bound Unix socket file, for `remove_socket_file`."""
        return None if self.uds is None else unix.identity(self.uds)

    def remove_socket_file(self, bound: tuple[int, int] | None) -> None:
        """Delete the file of the Unix socket, unless another server has replaced it since."""
        if self.uds is not None and bound is not None:
            unix.remove(self.uds, bound)


def why_not_bound(
    host: str | None, port: int | None, path: str | None, error: Exception, option: str = "--port"
) -> str:
    """The message for an address that cannot be bound; ``option`` of the command line chooses another port."""
    if getattr(error, "errno", None) == errno.EADDRINUSE:
        if path is not None:
            return f"another server listens on {path}; choose another path"
        return f"port {port} on {host} is in use; choose another with {option}"
    where = path if path is not None else f"{host}:{port}"
    return f"cannot listen on {where}: {getattr(error, 'strerror', None) or error}"


def serving_on(where: str, *, json: bool) -> str:
    """Return the line that announces the address of a server."""
    return msgspec.json.encode({"serving": where}).decode() if json else f"dovetail: serving on {where}"


def print_line(text: str) -> None:
    """Print to stderr: on a stdio server, stdout belongs to the protocol."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201
