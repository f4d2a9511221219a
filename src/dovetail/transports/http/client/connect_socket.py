"""Connecting to a server: directly, or through a proxy.

A proxy fetches http URLs itself, so only the request line differs. For https and WebSocket it opens a tunnel:
the client sends CONNECT, the proxy responds with 200, and all further bytes belong to the server. Extra bytes
after the response, an unterminated response, or none, close the connection.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

from ....errors import TransportError
from .proxies import HttpProxy
from .url_parts import Origin

ANSWER_HEAD: Final = 128 << 10
"""Bytes of a head, of trailers, or of anything else in an answer that brings no body."""


NEXT_ADDRESS_DELAY: Final = 0.25
"""Seconds before the next address of a host is tried in parallel (RFC 8305)."""

_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
"""OpenSSL error reasons for data that is not TLS, such as a plain HTTP response."""

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9]\d\d)(?: ([\t\x20-\x7e]{0,100})[^\r\n]*)?\r\n").match
_is_address = re.compile(r"[\d.]+|.*:.*").fullmatch

P = TypeVar("P", bound=asyncio.BaseProtocol)


async def open_connection(
    make: Callable[[], P],
    origin: Origin,
    where: str,
    *,
    verify: ssl.SSLContext | bool = True,
    proxy: HttpProxy | None = None,
    tunnel: bool = True,
    addresses: Sequence[str] | None = None,
) -> P:
    """Connect a protocol to ``origin`` (called ``where`` in messages) and return it.

    ``tunnel=False``: the protocol talks to the proxy itself. ``verify`` may be an `ssl.SSLContext`, or False
    to accept any certificate; it also applies to a TLS proxy. With ``addresses`` the name is not resolved
    again: these were checked, and another lookup could return others (a proxy resolves names itself).

    Raises:
        TransportError: connecting failed; the cause is refused, unresolved, tls, protocol or proxy.
    """
    if proxy is None:
        with _explained(where):
            return await _connect(make, origin, verify, addresses)
    if not tunnel:
        with _explained(proxy.name):
            return await _connect(make, proxy.origin, verify)
    with _explained(proxy.name):
        connecting = await _connect(lambda: _Tunnel(proxy, origin), proxy.origin, verify)
    try:
        transport = await connecting.opened
        with _explained(where):
            return await _take_over(transport, make(), origin, verify)
    except BaseException:
        connecting.abort()
        raise


async def _connect(
    make: Callable[[], P],
    origin: Origin,
    verify: ssl.SSLContext | bool,
    addresses: Sequence[str] | None = None,
) -> P:
    secure, host, port = origin
    loop = asyncio.get_running_loop()
    options: dict[str, Any] = {"ssl": tls_context(verify), "server_hostname": host} if secure else {}
    # Cancelling a race between addresses would leave the winner open, so a single address does not race.
    if isinstance(loop, asyncio.BaseEventLoop) and addresses is None and not _is_address(host):
        options["happy_eyeballs_delay"] = NEXT_ADDRESS_DELAY
    failure: OSError = socket.gaierror(socket.EAI_NONAME, "no address")
    for place in (host,) if addresses is None else addresses:
        try:
            _, protocol = await loop.create_connection(make, place, port, **options)
        except OSError as error:
            failure = error
        else:
            return protocol
    raise failure


async def _take_over(
    transport: asyncio.Transport, protocol: P, origin: Origin, verify: ssl.SSLContext | bool
) -> P:
    """Hand over a tunnel to the protocol it was opened for, with TLS if the server uses it."""
    secure, host, _ = origin
    made: asyncio.Transport | None = transport
    if secure:
        loop = asyncio.get_running_loop()
        made = await loop.start_tls(transport, protocol, tls_context(verify), server_hostname=host)
    # The tunnel was lost before the protocol was connected, so the protocol is not notified.
    if made is None or made.is_closing():
        raise ConnectionResetError
    if not secure:
        made.set_protocol(protocol)
    protocol.connection_made(made)
    if not secure:
        made.resume_reading()
    return protocol


class _Tunnel(asyncio.Protocol):
    """Requests a tunnel to ``origin`` from a proxy.

    When ``opened`` is done, the transport waits for another protocol.
    """

    def __init__(self, proxy: HttpProxy, origin: Origin) -> None:
        self.opened: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()
        self._proxy = proxy
        _, host, port = origin
        self._target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._transport: asyncio.Transport | None = None
        self._answer = bytearray()
        self._size = 0

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        lines = [f"CONNECT {self._target} HTTP/1.1", f"Host: {self._target}", "User-Agent: dovetail"]
        if self._proxy.authorization is not None:
            lines.append(f"Proxy-Authorization: {self._proxy.authorization}")
        self._transport.write("\r\n".join([*lines, "", ""]).encode())

    def data_received(self, data: bytes) -> None:
        searched = max(0, len(self._answer) - 3)
        self._answer += data
        self._size += len(data)
        while not self.opened.done() and (end := self._answer.find(b"\r\n\r\n", searched)) >= 0:
            head = bytes(self._answer[: end + 2])
            del self._answer[: end + 4]
            searched = 0
            self._read(head)
        if self._size > ANSWER_HEAD:
            self._fail(f"responded to CONNECT with more than {ANSWER_HEAD} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail("closed the connection without a response to CONNECT")

    def _read(self, head: bytes) -> None:
        """Parse one header block: that of the response, or of an interim response."""
        found = _STATUS(head)
        status = 0 if found is None else int(found[1])
        if found is None or status == 101:
            self._fail("does not speak HTTP")
        elif status >= 300:
            reason = (found[2] or b"").decode().strip()
            self._give_up(refused(self._proxy, status, reason, self._target))
        elif status >= 200 and self._answer:
            # RFC 9110, 9.3.6: the response has no body, and the server does not send first.
            self._fail("sent data after its response to CONNECT")
        elif status >= 200 and self._transport is not None:
            self._transport.pause_reading()  # further data is for the next protocol
            self.opened.set_result(self._transport)

    def _fail(self, what: str) -> None:
        self._give_up(TransportError(f"{self._proxy.name} {what}", cause="proxy"))

    def _give_up(self, error: TransportError) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)
            self.opened.exception()  # marks the exception as retrieved: the caller may have been cancelled


def refused(proxy: HttpProxy, status: int, reason: str, target: str) -> TransportError:
    """Return the error for a refusal by a proxy."""
    said = f"HTTP {status} {reason}".rstrip()
    if status != 407:
        why = f"refused to connect to {target}: {said}"
    elif proxy.authorization is None:
        why = f"requires authorization ({said}): put user and password into its URL"
    else:
        why = f"rejected the user and password of its URL ({said})"
    return TransportError(f"{proxy.name} {why}", cause="proxy")


# --- TLS and errors -----------------------------------------------------------------------------------------


def tls_context(verify: ssl.SSLContext | bool) -> ssl.SSLContext:
    """Return the TLS settings; by default with the certificates of the system or of ``SSL_CERT_FILE``."""
    if not isinstance(verify, bool):
        return verify
    return _default_context(verify, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=8)
def _default_context(verify: bool, file: str | None, folder: str | None) -> ssl.SSLContext:
    """Return a cached context: loading the system certificates takes longer than a call.

    OpenSSL reads the two variables.
    """
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@contextmanager
def _explained(where: str) -> Generator[None]:
    try:
        yield
    except (OSError, ValueError, OverflowError) as error:
        raise unreachable(error, where) from error


def unreachable(error: Exception, where: str) -> TransportError:
    """Convert a connection error to a `TransportError`."""
    if isinstance(error, socket.gaierror | UnicodeError):
        return TransportError(f"cannot resolve the host name of {where}", cause="unresolved")
    if isinstance(error, ssl.SSLError | ssl.CertificateError):
        if error.reason in _NOT_TLS:
            scheme, _, address = where.partition("://")
            plain = {"https": "http", "wss": "ws", "tls": "tcp"}.get(scheme)
            advice = f": write {plain}://{address}" if plain else ""
            return TransportError(f"{where} does not use TLS{advice}", cause="tls")
        return TransportError(f"TLS connection to {where} failed: {error}", cause="tls")
    if isinstance(error, ConnectionAbortedError | ConnectionResetError):
        return TransportError(f"{where} closed the connection during the handshake", cause="refused")
    if isinstance(error, ConnectionRefusedError):
        return TransportError(f"{where} refused the connection", cause="refused")
    if isinstance(error, OSError):
        # asyncio's message lists all its addresses
        why = error.strerror or "none of its addresses accepts connections"
        return TransportError(f"cannot connect to {where}: {why}", cause="refused")
    return TransportError(f"{where} is not a valid URL to connect to", cause="protocol")
