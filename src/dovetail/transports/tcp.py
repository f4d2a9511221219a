"""Newline-framed messages over TCP, TLS and Unix sockets.

`listen` serves a service on an address; `connect` gives a client its link. An oversized message gets an error
response and closes the connection. Connections beyond the limit are closed at once. A connection that is idle
for ``idle`` seconds is closed, unless a call is in progress; a legacy client gets a ping first. A client that
does not read is closed after the same time. TCP keepalive detects lost connections.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from ssl import CERT_REQUIRED, SSLContext
from typing import Any, Final, cast

from ..auth.server.connection_auth import certificate_principal
from ..core.channel import Receiver, Service
from ..core.limits import RETRY_SECONDS, UNCOUNTED_BYTES
from ..drivers.duplex import Duplex, accept, lifespan
from ..drivers.heartbeat import Heartbeat
from ..drivers.run import GRACE_SECONDS
from ..errors import Refusal, RequestTimeout, TransportError
from ..settings import Limits
from . import main_loop, unix
from .bind_address import why_not_bound
from .loopback import is_loopback
from .read_buffer import shared_buffer, taken
from .stream import LineLink, cannot_connect

CONNECT_SECONDS: Final = 30.0
TCP_CONNECTIONS: Final = 1000
TCP_IDLE_SECONDS: Final = 300.0
KEEPALIVE_SECONDS: Final = 60
KEEPALIVE_INTERVAL: Final = 15
KEEPALIVE_PROBES: Final = 4
"""TCP keepalive: idle time before the first probe, interval and number of probes."""
TLS_SECONDS: Final = 10.0
"""Seconds that a client has for its TLS handshake."""

_KEEPALIVE = (
    ("TCP_KEEPIDLE", KEEPALIVE_SECONDS),
    ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL),
    ("TCP_KEEPCNT", KEEPALIVE_PROBES),
)


class SocketLink(LineLink, asyncio.BufferedProtocol):
    """A link over one socket."""

    def get_buffer(self, sizehint: int) -> memoryview:
        return shared_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(taken(nbytes))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._secure = transport.get_extra_info("sslcontext") is not None
        keep_alive(transport.get_extra_info("socket"))
        super().connection_made(transport)

    def eof_received(self) -> bool:
        super().eof_received()
        return not self._secure  # TLS has no half-open state: the transport closes itself


def keep_alive(connection: socket.socket | None) -> None:
    """Enable TCP keepalive, which detects lost peers. Unix sockets do not need it."""
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


class _AcceptedConnection(SocketLink):
    """One accepted connection. It registers with its listener and detects idle clients."""

    def __init__(self, listener: StreamListener, duplex: Duplex) -> None:
        super().__init__(duplex, duplex.limits)
        self.duplex = duplex
        self._listener = listener
        self._idle = None if listener.idle is None else Heartbeat(listener.idle, self._check)
        self._seen = 0
        self._stalled = 0  # unsent bytes at the last check
        self._counted = 0  # bytes of an unfinished line that are acquired from the shared limit

    def buffer_updated(self, nbytes: int) -> None:
        data = taken(nbytes)
        if not self.chunks and data.lstrip(b" \t")[:1] not in (b"{", b"["):
            self.abort()  # another protocol, such as HTTP or TLS
        else:
            self.data_received(data)
            if self._held or self._counted:
                self._count(len(self._unfinished) if self._held else 0)

    def _continue(self, data: bytes) -> bytes:
        if self._counted and b"\n" in data:
            self._count(0)  # the line is complete and counts as a message now
        return super()._continue(data)

    def _count(self, size: int) -> None:
        """Count ``size`` bytes of an unfinished line. Closes the connection if the limit is reached."""
        buffered = self.duplex.endpoint.admission.shared.buffered_bytes
        size = size if size > UNCOUNTED_BYTES else 0
        if buffered.acquire(size - self._counted):
            self._counted = size
        else:
            self.duplex.refuse_unfinished()
            self.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        scope = self.duplex.endpoint.scope = _scope(transport)
        if "peer_certificate" in scope:
            self.duplex.endpoint.principal = certificate_principal(scope["peer_certificate"])
        super().connection_made(transport)
        if len(self._listener.connections) >= self._listener.limit:
            refusal = Refusal(1060, message="too many connections are open", retry_after=RETRY_SECONDS)
            self.send(self._listener.service.admission.refuse(refusal).body)
            self.close()
            return
        self._listener.connections.add(self)
        if self._idle is not None:
            self._idle.start()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._listener.connections.discard(self)
        self._count(0)
        if self._idle is not None:
            self._idle.stop()
            self._idle = None  # it refers to this object
        super().connection_lost(exc)

    def _check(self) -> bool:
        unsent = self._unsent()
        if self.blocked and unsent >= self._stalled > 0:
            self.abort()  # the client has read nothing since the last check
        elif self._seen == self.chunks and not self.duplex.busy:
            self.close()
        else:
            self._seen = self.chunks
            self._stalled = unsent if self.blocked else 0
            return True
        return False

    def _unsent(self) -> int:
        return cast("asyncio.Transport", self._sink).get_write_buffer_size() if self._sink else 0


def _scope(transport: asyncio.BaseTransport) -> Mapping[str, Any]:
    scope: dict[str, Any] = {"transport": "tcp", "client": transport.get_extra_info("peername")}
    certificate = transport.get_extra_info("peercert")
    if certificate:
        scope["peer_certificate"] = certificate
    return scope


class StreamListener:
    """A listening socket with its connections. ``address`` is the bound address; end it with `close`."""

    def __init__(self, service: Service, *, connections: int, idle: float | None, grace: float) -> None:
        self.service = service
        self.limit = connections
        self.idle = idle
        self.grace = grace
        self.connections: set[_AcceptedConnection] = set()
        self._server: asyncio.Server
        self._file: tuple[str, tuple[int, int] | None] | None = None
        """Path and identity of the Unix socket file."""

    def accept(self) -> _AcceptedConnection:
        # A legacy client that responds to the ping in time is not idle.
        quiet = None if self.idle is None else self.idle / 2
        return _AcceptedConnection(self, accept(self.service, grace=self.grace, untrusted=True, quiet=quiet))

    @property
    def address(self) -> Any:
        """The bound address of the first socket: (host, port, …), or the path of a Unix socket."""
        return self._server.sockets[0].getsockname()

    async def open(
        self, host: str | None, port: int | None, path: str | None, ssl: SSLContext | None
    ) -> StreamListener:
        loop = asyncio.get_running_loop()
        # A handshake is not a connection yet, so only its timeout limits it.
        secured: dict[str, Any] = {} if ssl is None else {"ssl": ssl, "ssl_handshake_timeout": TLS_SECONDS}
        if path is not None:
            bound = unix.bind(path)
            self._file = path, unix.identity(path)
            self._server = await loop.create_unix_server(self.accept, sock=bound, **secured)
        else:
            self._server = await loop.create_server(self.accept, host, port or 0, **secured)
        return self

    async def close(self, *, drain: float = 0.0) -> None:
        """Stop accepting, give running calls ``drain`` seconds, and close every connection (graceful
        shutdown)."""
        self._server.close()
        if self._file is not None:
            unix.remove(*self._file)
        self.service.end_listening()
        open_ones = list(self.connections)
        await asyncio.gather(*(one.duplex.close(drain=drain) for one in open_ones))
        await self._server.wait_closed()


async def listen(
    service: Service,
    host: str | None = "127.0.0.1",
    port: int | None = 0,
    *,
    path: str | None = None,
    ssl: SSLContext | None = None,
    connections: int = TCP_CONNECTIONS,
    idle: float | None = TCP_IDLE_SECONDS,
    grace: float = GRACE_SECONDS,
    allow_anonymous: bool = False,
) -> StreamListener:
    """Serve ``service`` on a TCP port, or on the Unix socket ``path``; with ``ssl`` over TLS.

    Only TLS client certificates can authenticate callers. Without them, an address that other hosts can
    reach requires ``allow_anonymous=True``.

    Raises:
        TransportError: the address cannot be used, or requires ``allow_anonymous``.
    """
    if not allow_anonymous and (ssl is None or ssl.verify_mode != CERT_REQUIRED):
        _check_callers(service, host, path)
    listener = StreamListener(service, connections=connections, idle=idle, grace=grace)
    try:
        return await listener.open(host, port, path, ssl)
    except (OSError, OverflowError) as error:  # the latter: the port number is out of range
        raise TransportError(why_not_bound(host, port, path, error, "--tcp"), cause="refused") from None


def _check_callers(service: Service, host: str | None, path: str | None) -> None:
    """Raise `TransportError` if callers cannot be authenticated but must be."""
    if service.auth is not None:
        raise TransportError(
            "this server authenticates callers, which TCP supports with client certificates only: require them, "
            "or set allow_anonymous=True (--allow-anonymous) to accept anonymous callers",
            cause="refused",
        )
    if path is None and not is_loopback(host):
        raise TransportError(
            f"serving on {host} allows unauthenticated calls from other hosts: require client "
            "certificates, or set allow_anonymous=True (--allow-anonymous)",
            cause="refused",
        )


async def serve(
    service: Service,
    host: str | None = "127.0.0.1",
    port: int | None = 0,
    *,
    stop: main_loop.Stop | None = None,
    ready: Callable[[StreamListener], object] | None = None,
    **options: Any,
) -> None:
    """Run `listen` within the service's lifespan, until cancelled or asked to stop.

    ``ready`` is called when connections are accepted.
    """
    async with lifespan(service):
        listener = await listen(service, host, port, **options)
        if ready is not None:
            ready(listener)
        try:
            await (stop.wait() if stop is not None else asyncio.Event().wait())
        finally:
            await listener.close(drain=0.0 if stop is None else stop.drain)


def run(service: Service, host: str | None = "127.0.0.1", port: int | None = 0, **options: Any) -> int:
    """Serve until a signal. Returns the exit status."""

    async def main(stop: main_loop.Stop) -> None:
        await serve(service, host, port, stop=stop, **options)

    return main_loop.run(main, threads=service.limits.max_threads)


async def connect(
    receiver: Receiver,
    host: str | None = None,
    port: int | None = None,
    *,
    path: str | None = None,
    ssl: SSLContext | None = None,
    limits: Limits | None = None,
    timeout: float | None = CONNECT_SECONDS,
) -> SocketLink:
    """Connect ``receiver`` to a server. It has been notified when this returns.

    Raises:
        TransportError: no server listens there, or TLS failed.
        RequestTimeout: the connection was not established in time (``limit="connect"``).
    """
    loop = asyncio.get_running_loop()
    limits = limits or Limits()

    where = path or f"{host}:{port}"

    def link() -> SocketLink:
        made = SocketLink(receiver, limits)
        made.peer = where
        return made

    try:
        async with asyncio.timeout(timeout):
            if path is not None:
                name = host if ssl else None
                _, made = await loop.create_unix_connection(link, path, ssl=ssl, server_hostname=name)
            else:
                _, made = await loop.create_connection(link, host or "127.0.0.1", port or 0, ssl=ssl)
    except TimeoutError:
        raise RequestTimeout(f"{where} did not respond within {timeout:g} s", limit="connect") from None
    except OSError as error:
        raise cannot_connect(where, error) from None
    return made
