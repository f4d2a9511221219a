"""`client.fetch` by ourselves: a pool of HTTP/1.1 connections that are kept alive, and nothing else.

No cookies (a server must not recognise us by anything but its session id), no redirects, no proxy from the
environment, no bound on connections: that is `Limits.pending`, and behind a bound of its own, calls that wait for our
answer could hold every connection that the answer needs. Everything that goes wrong is one `TransportError` with its
cause in one word: refused, unresolved, tls, eof, reset, timeout, protocol, closed.

A library was measured in this place and had 40 % of the time of a call; see docs/design/hot-path.md.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any

from ....errors import DovetailError, StateError, TransportError
from .addresses import Address, Origin, address_of, shown
from .inflating import ACCEPTED

if TYPE_CHECKING:
    from types import CoroutineType

    from .connection import Answer, Connection

KEPT = 15.0
"""Seconds an unused connection is kept."""
SPARE = 1000
"""Unused connections that are kept per origin."""
_ATTEMPT = 0.25
"""Seconds before the next address of a host is tried beside the first (RFC 8305)."""
_SAFE = frozenset({"GET", "DELETE", "HEAD", "OPTIONS"})
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch


class HttpFetch:
    """A pool of connections; ``verify`` may be an `ssl.SSLContext`, or False to trust everybody."""

    def __init__(self, *, verify: ssl.SSLContext | bool = True) -> None:
        self._verify = verify

    def session(self) -> HttpSession:
        return HttpSession(self._verify)


class HttpSession:
    """An open pool; leave it to close its connections. It belongs to the event loop it was entered in."""

    def __init__(self, verify: ssl.SSLContext | bool) -> None:
        self._verify = verify
        self._unused: dict[Origin, deque[Connection]] = {}
        self._open: set[Connection] = set()
        self._connecting: set[asyncio.Timeout] = set()
        self._addresses: dict[str, Address] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None
        self._make: type[Connection]
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> HttpSession:
        self._make = load().Connection
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *exception: object) -> None:
        loop, self._loop = self._loop, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._unused.clear()
        for attempt in self._connecting:
            attempt.reschedule(0)
        for connection in list(self._open):
            connection.fail(_closed())
        if self._open and loop is not None:
            self._emptied = loop.create_future()
            await self._emptied  # asyncio closes a socket in the next turn of the loop

    def __call__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> CoroutineType[Any, Any, Answer]:
        if timeout is None:
            return self._send(method, url, headers, body)
        return self._send_within(timeout, method, url, headers, body)

    async def _send_within(
        self, timeout: float, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        try:
            async with asyncio.timeout(timeout):
                return await self._send(method, url, headers, body)
        except TimeoutError:
            raise TransportError(f"{shown(url)} did not answer within {timeout} s", cause="timeout") from None

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        if self._loop is not asyncio.get_running_loop():
            raise StateError("the HTTP session is not open in this event loop")
        address = self._addresses.get(url) or self._take_apart(url)
        data = request(method, address, headers, body)
        connection = self._spare(address.origin)
        if connection is not None:
            if method not in _SAFE:
                return await connection.request(data)
            try:
                return await connection.request(data, method == "HEAD")
            except TransportError as error:
                # The server may have closed it just now. What does no harm twice is tried on a new one.
                if error.cause not in ("eof", "reset"):
                    raise
        connection = await self._connect(address.origin, url)
        return await connection.request(data, method == "HEAD")

    def _take_apart(self, url: str) -> Address:
        if len(self._addresses) >= SPARE:
            self._addresses.clear()
        address = self._addresses[url] = address_of(url)
        return address

    # --- connections ----------------------------------------------------------------------------------------------

    async def _connect(self, origin: Origin, url: str) -> Connection:
        where = shown(url)
        attempt = asyncio.timeout(None)  # runs out when the session is closed
        self._connecting.add(attempt)
        try:
            async with attempt:
                connection = await self._connected(origin, where)
        except (OSError, ValueError, OverflowError) as error:
            if attempt.expired():
                raise _closed() from None
            raise _unreachable(error, where) from error
        finally:
            self._connecting.discard(attempt)
        if connection.is_open:
            self._open.add(connection)
        return connection

    async def _connected(self, origin: Origin, where: str) -> Connection:
        secure, host, port = origin
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {"ssl": self._context(), "server_hostname": host} if secure else {}
        if isinstance(loop, asyncio.BaseEventLoop):
            options["happy_eyeballs_delay"] = _ATTEMPT
        _, connection = await loop.create_connection(
            lambda: self._make(where, origin, self._put_aside, self._forget), host, port, **options
        )
        return connection

    def _context(self) -> ssl.SSLContext:
        return _context(self._verify) if isinstance(self._verify, bool) else self._verify

    def _spare(self, origin: Origin) -> Connection | None:
        """The connection that was used last, so that the others can grow old."""
        unused = self._unused.get(origin)
        while unused:
            connection = unused.pop()
            age = monotonic() - connection.since
            # An unused connection has nothing to say but that it is over. Looked at every time: a request that is
            # sent into a closed one fails, and what came unasked would be taken for its answer.
            if connection.reusable and age < KEPT and age < connection.patience and not connection.pending(0):
                return connection
            connection.abort()
        return None

    def _put_aside(self, connection: Connection) -> None:
        unused = self._unused.get(connection.origin)
        if unused is None:
            unused = self._unused[connection.origin] = deque()
        connection.since = monotonic()
        unused.append(connection)
        if len(unused) > SPARE:
            unused.popleft().abort()
        if self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(KEPT, self._clear_out)

    def _clear_out(self) -> None:
        """Close what nobody used for long; look again when the next one may be old."""
        self._timer = None
        now = monotonic()
        oldest = now
        for origin, unused in list(self._unused.items()):
            while unused and now - unused[0].since >= KEPT - 0.01:
                unused.popleft().abort()
            if unused:
                oldest = min(oldest, unused[0].since)
            else:
                del self._unused[origin]
        if self._unused and self._loop is not None:
            self._timer = self._loop.call_later(KEPT - (now - oldest), self._clear_out)

    def _forget(self, connection: Connection) -> None:
        """It is closed. If it is among the unused, it is passed over there, and goes when it is old."""
        self._open.discard(connection)
        if self._emptied is not None and not self._open and not self._emptied.done():
            self._emptied.set_result(None)


# --- one request ----------------------------------------------------------------------------------------------------


def request(method: str, address: Address, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """A request as it goes over the wire.

    Raises:
        TransportError: the method or a header cannot be sent as it is.
    """
    lines = {
        "host": f"Host: {address.name}",
        "user-agent": _USER_AGENT,
        "accept-encoding": _ACCEPT_ENCODING,
    }
    if address.authorization is not None:
        lines["authorization"] = f"Authorization: {address.authorization}"
    for name, value in headers.items():
        lines[_key(name)] = f"{name}: {value}"
    if body is not None:
        lines["content-length"] = f"Content-Length: {len(body)}"
    elif method in _WITH_BODY:
        lines["content-length"] = "Content-Length: 0"
    elif "content-length" in lines:
        del lines["content-length"]  # nothing follows, whatever the caller says
    text = "\r\n".join(lines.values())
    # One look at all of them: whatever a value holds, it must not end its line.
    if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1 or "\0" in text:
        raise TransportError("a header must not contain a line break or a null character", cause="protocol")
    if method not in _SAFE and method not in _WITH_BODY and _TOKEN(method) is None:
        raise TransportError(f"{method[:100]!r} is no method", cause="protocol")
    try:
        head = f"{method} {address.path} HTTP/1.1\r\n{text}\r\n\r\n".encode()
    except UnicodeEncodeError:
        raise TransportError("a header contains half a character", cause="protocol") from None
    return head if body is None else head + body


_USER_AGENT = "User-Agent: dovetail"
_ACCEPT_ENCODING = f"Accept-Encoding: {ACCEPTED}"


@lru_cache(maxsize=1024)
def _key(name: str) -> str:
    """A header's name as it is compared.

    Raises:
        TransportError: it is no name, or says where the body ends, which is not the caller's business.
    """
    if _TOKEN(name) is None:
        raise TransportError(f"{name[:100]!r} is no name of a header", cause="protocol")
    key = name.lower()
    if key == "transfer-encoding":
        raise TransportError("a body is sent as it is, without a Transfer-Encoding", cause="protocol")
    return key


def load() -> Any:
    """Import what the connections need.

    Raises:
        DovetailError: it is not installed; the message is the command to run.
    """
    try:
        return importlib.import_module(".connection", __package__)
    except ModuleNotFoundError as error:
        if error.name != "httptools":
            raise
        raise DovetailError(
            "HTTP targets need httptools: pip install 'dovetail[http]'", kind="missing_extra"
        ) from None


@lru_cache
def _context(verify: bool) -> ssl.SSLContext:
    """Made once: reading the certificates of the system takes longer than a call."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _closed() -> TransportError:
    return TransportError("the HTTP session was closed", cause="closed")


def _unreachable(error: Exception, where: str) -> TransportError:
    """Why there is no connection, in our words."""
    if isinstance(error, socket.gaierror | UnicodeError):
        return TransportError(f"the name of {where} cannot be resolved", cause="unresolved")
    if isinstance(error, ssl.SSLError | ssl.CertificateError):
        return TransportError(f"no secure connection to {where}: {error}", cause="tls")
    if isinstance(error, ConnectionAbortedError | ConnectionResetError):
        return TransportError(f"{where} broke off the connection before it was made", cause="reset")
    if isinstance(error, ConnectionRefusedError):
        return TransportError(f"{where} refused the connection", cause="refused")
    if isinstance(error, OSError):
        why = (
            error.strerror or "none of its addresses takes the connection"
        )  # asyncio's own words name them all
        return TransportError(f"{where} cannot be reached: {why}", cause="refused")
    return TransportError(f"{where} is no URL that can be connected to", cause="protocol")
