"""Newline-framed messages over TCP, TLS and Unix sockets.

`listen` serves a service to everybody who connects; `connect` gives a client its link. A message that is too
large is answered and ends the connection. Connections beyond the limit are closed at once, silent ones after
``idle`` seconds unless a call is under way (a legacy client is asked before whether it is there), those that take
nothing of what we send in any case; a peer that vanished without a word is found by TCP keep-alive.
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
"""After how much silence the kernel asks whether the peer is still there, how often and how many times."""
TLS_SECONDS: Final = 10.0
"""What a client has for its handshake."""

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
    """Have the kernel notice a peer that is gone. Unix sockets need no such thing."""
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


class _Connection(SocketLink):
    """One accepted connection: it registers with its listener and watches for silence."""

    def __init__(self, listener: Listener, duplex: Duplex) -> None:
        super().__init__(duplex, duplex.limits)
        self.duplex = duplex
        self._listener = listener
        self._idle = None if listener.idle is None else Heartbeat(listener.idle, self._check)
        self._seen = 0
        self._stalled = 0  # bytes the peer had not taken when we last looked
        self._counted = 0  # bytes of an unfinished line that are acquired from the shared limit

    def buffer_updated(self, nbytes: int) -> None:
        data = taken(nbytes)
        if not self.chunks and data.lstrip(b" \t")[:1] not in (b"{", b"["):
            self.abort()  # whatever it speaks, it is not this: HTTP, TLS
        else:
            self.data_received(data)
            if self._held or self._counted:
                self._count(len(self._unfinished) if self._held else 0)

    def _continue(self, data: bytes) -> bytes:
        if self._counted and b"\n" in data:
            self._count(0)  # it is a message now, and counts as one
        return super()._continue(data)

    def _count(self, size: int) -> None:
        """Count ``size`` bytes of an unfinished line; close the connection when there is no room for them."""
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
            self.abort()  # it has taken nothing for as long
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


class Listener:
    """An open door. Close it with `close`; ``address`` says where it is."""

    def __init__(self, service: Service, *, connections: int, idle: float | None, grace: float) -> None:
        self.service = service
        self.limit = connections
        self.idle = idle
        self.grace = grace
        self.connections: set[_Connection] = set()
        self._server: asyncio.Server
        self._file: tuple[str, tuple[int, int] | None] | None = None
        """The Unix socket, and what tells it from another one there."""

    def accept(self) -> _Connection:
        # A legacy client that answers in time is not silent.
        quiet = None if self.idle is None else self.idle / 2
        return _Connection(self, accept(self.service, grace=self.grace, untrusted=True, quiet=quiet))

    @property
    def address(self) -> Any:
        """What the first socket is bound to: (host, port, …), or the path of a Unix socket."""
        return self._server.sockets[0].getsockname()

    async def open(
        self, host: str | None, port: int | None, path: str | None, ssl: SSLContext | None
    ) -> Listener:
        loop = asyncio.get_running_loop()
        # A handshake is no connection yet, so its time is all that bounds it.
        secured: dict[str, Any] = {} if ssl is None else {"ssl": ssl, "ssl_handshake_timeout": TLS_SECONDS}
        if path is not None:
            bound = unix.bind(path)
            self._file = path, unix.identity(path)
            self._server = await loop.create_unix_server(self.accept, sock=bound, **secured)
        else:
            self._server = await loop.create_server(self.accept, host, port or 0, **secured)
        return self

    async def close(self, *, drain: float = 0.0) -> None:
        """Let nobody in any more, give calls under way ``drain`` seconds, and end every connection."""
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
) -> Listener:
    """Serve ``service`` on a TCP port, or on the Unix socket ``path``; with ``ssl`` over TLS.

    There is no authentication but that of TLS client certificates, so without those an address that others can
    reach needs ``allow_anonymous=True``.

    Raises:
        TransportError: the address cannot be used, or may not without ``allow_anonymous``.
    """
    if not allow_anonymous and (ssl is None or ssl.verify_mode != CERT_REQUIRED):
        _check_strangers(service, host, path)
    listener = Listener(service, connections=connections, idle=idle, grace=grace)
    try:
        return await listener.open(host, port, path, ssl)
    except (OSError, OverflowError) as error:  # the latter: no port has this number
        raise TransportError(why_not_bound(host, port, path, error, "--tcp"), cause="refused") from None


def _check_strangers(service: Service, host: str | None, path: str | None) -> None:
    """Raises `TransportError`: callers without a certificate could not be told apart, or are not wanted."""
    if service.auth is not None:
        raise TransportError(
            "this server verifies who calls, which TCP can say by client certificates alone: ask for them, or say "
            "allow_anonymous=True (--allow-anonymous) to let everybody in as nobody",
            cause="refused",
        )
    if path is None and not is_loopback(host):
        raise TransportError(
            f"serving on {host} would let everybody who can reach it call this server: ask for client "
            "certificates, or say allow_anonymous=True (--allow-anonymous)",
            cause="refused",
        )


async def serve(
    service: Service,
    host: str | None = "127.0.0.1",
    port: int | None = 0,
    *,
    stop: main_loop.Stop | None = None,
    ready: Callable[[Listener], object] | None = None,
    **options: Any,
) -> None:
    """`listen` with the service's lifespan around it, until cancelled or asked to stop.

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
    """Serve until a signal comes; gives the exit status."""

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
    """Connect ``receiver`` to a server; it has been told so when this returns.

    Raises:
        TransportError: nobody listens there, or TLS failed.
        RequestTimeout: there was no answer in time (``limit="connect"``).
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
        raise RequestTimeout(f"{where} did not answer within {timeout:g} s", limit="connect") from None
    except OSError as error:
        raise cannot_connect(where, error) from None
    return made
