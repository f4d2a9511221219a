"""`client.fetch` by ourselves: a pool of HTTP/1.1 connections that are kept alive, and nothing else.

No cookies (a server must not recognise us by anything but its session id), no redirects, no proxy from the
environment, no bound on connections: that is `Limits.pending`, and behind a bound of its own, calls that wait for our
answer could hold every connection that the answer needs. Everything that goes wrong is one `TransportError` with its
cause in one word: refused, unresolved, tls, eof, reset, timeout, protocol.

A library was measured in this place and had 40 % of the time of a call; see docs/design/hot-path.md.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import select
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...errors import DovetailError, TransportError
from .addresses import Address, address_of, shown
from .inflating import ACCEPTED

if TYPE_CHECKING:
    from .connection import Answer, Connection

KEPT = 15.0
"""Seconds an unused connection is kept."""
STALE = 1.0
"""Seconds after which an unused connection is looked at before it is used."""
SPARE = 100
"""Unused connections that are kept per origin."""
_ATTEMPT = 0.25
"""Seconds before the next address of a host is tried beside the first (RFC 8305)."""
_SAFE = frozenset({"GET", "DELETE", "HEAD", "OPTIONS"})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch

Origin = tuple[bool, str, int]


class HttpFetch:
    """A pool of connections; ``verify`` may be an `ssl.SSLContext`, or False to trust everybody."""

    def __init__(self, *, verify: ssl.SSLContext | bool = True) -> None:
        self._verify = verify

    def session(self) -> HttpSession:
        return HttpSession(self._verify)


class HttpSession:
    """An open pool; leave it to close its connections."""

    def __init__(self, verify: ssl.SSLContext | bool) -> None:
        self._verify = verify
        self._unused: dict[Origin, deque[Connection]] = {}
        self._open: set[Connection] = set()
        self._addresses: dict[str, Address] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None
        self._make: type[Connection]
        self._loop: asyncio.AbstractEventLoop

    async def __aenter__(self) -> HttpSession:
        self._make = load().Connection
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._unused.clear()
        for connection in list(self._open):
            connection.abort()
        if self._open:
            self._emptied = self._loop.create_future()
            await self._emptied  # asyncio closes a socket in the next turn of the loop

    async def __call__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> Answer:
        if timeout is None:
            return await self._send(method, url, headers, body)
        timer = asyncio.timeout(timeout)
        try:
            async with timer:
                return await self._send(method, url, headers, body)
        except TimeoutError:
            if not timer.expired():
                raise  # the application's own
            raise TransportError(f"{shown(url)} did not answer within {timeout} s", cause="timeout") from None

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        address = self._addresses.get(url) or self._take_apart(url)
        data = request(method, address, headers, body)
        connection = self._spare(address)
        if connection is not None:
            if method not in _SAFE:
                return await connection.request(data)
            try:
                return await connection.request(data)
            except TransportError as error:
                # The server may have closed it just now. What does no harm twice is tried on a new one.
                if error.cause not in ("eof", "reset"):
                    raise
        return await (await self._connect(address, url)).request(data)

    def _take_apart(self, url: str) -> Address:
        if len(self._addresses) >= SPARE:
            self._addresses.clear()
        address = self._addresses[url] = address_of(url)
        return address

    # --- connections ----------------------------------------------------------------------------------------------

    async def _connect(self, address: Address, url: str) -> Connection:
        where = shown(url)
        options: dict[str, Any] = {}
        if address.secure:
            options = {"ssl": self._context(), "server_hostname": address.host}
        if isinstance(self._loop, asyncio.BaseEventLoop):
            options["happy_eyeballs_delay"] = _ATTEMPT
        origin = address.origin
        try:
            _, connection = await self._loop.create_connection(
                lambda: self._make(where, lambda free: self._put_aside(origin, free), self._forget),
                address.host,
                address.port,
                **options,
            )
        except (OSError, ValueError, OverflowError) as error:
            raise _unreachable(error, where) from error
        self._open.add(connection)
        return connection

    def _context(self) -> ssl.SSLContext:
        if isinstance(self._verify, bool):
            context = ssl.create_default_context()
            if not self._verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            self._verify = context
        return self._verify

    def _spare(self, address: Address) -> Connection | None:
        """The connection that was used last, so that the others can grow old."""
        unused = self._unused.get(address.origin)
        while unused:
            connection = unused.pop()
            age = self._loop.time() - connection.since
            if age < STALE or (age < KEPT and _is_silent(connection.descriptor)):
                return connection
            connection.abort()
        return None

    def _put_aside(self, origin: Origin, connection: Connection) -> None:
        unused = self._unused.get(origin)
        if unused is None:
            unused = self._unused[origin] = deque()
        connection.since = self._loop.time()
        unused.append(connection)
        if len(unused) > SPARE:
            unused.popleft().abort()
        if self._timer is None:
            self._timer = self._loop.call_later(KEPT, self._clear_out)

    def _clear_out(self) -> None:
        """Close what nobody used for long; look again when the next one may be old."""
        self._timer = None
        now = self._loop.time()
        oldest = now
        for origin, unused in list(self._unused.items()):
            while unused and now - unused[0].since >= KEPT - 0.01:
                unused.popleft().abort()
            if unused:
                oldest = min(oldest, unused[0].since)
            else:
                del self._unused[origin]
        if self._unused:
            self._timer = self._loop.call_later(KEPT - (now - oldest), self._clear_out)

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        if self._emptied is not None and not self._open and not self._emptied.done():
            self._emptied.set_result(None)
        for unused in self._unused.values():
            if connection in unused:
                unused.remove(connection)
                break


# --- one request ----------------------------------------------------------------------------------------------------


def request(method: str, address: Address, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """A request as it goes over the wire.

    Raises:
        TransportError: a header cannot be sent as it is.
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
    text = "\r\n".join(lines.values())
    # One look at all of them: whatever a value holds, it must not end its line.
    if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1 or "\0" in text:
        raise TransportError("a header must not contain a line break or a null character", cause="protocol")
    head = f"{method} {address.path} HTTP/1.1\r\n{text}\r\n\r\n".encode()
    return head if body is None else head + body


_USER_AGENT = "User-Agent: dovetail"
_ACCEPT_ENCODING = f"Accept-Encoding: {ACCEPTED}"


@lru_cache(maxsize=1024)
def _key(name: str) -> str:
    """A header's name as it is compared.

    Raises:
        TransportError: it is no name.
    """
    if _TOKEN(name) is None:
        raise TransportError(f"{name[:100]!r} is no name of a header", cause="protocol")
    return name.lower()


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


def _is_silent(descriptor: int) -> bool:
    """Whether nothing has come: an unused connection has nothing to say but that it is over."""
    if descriptor < 0:
        return False
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return not poll.poll(0)
    return not select.select([descriptor], [], [], 0)[0]


def _unreachable(error: Exception, where: str) -> TransportError:
    """Why there is no connection, in our words."""
    if isinstance(error, socket.gaierror | UnicodeError):
        return TransportError(f"the name of {where} cannot be resolved", cause="unresolved")
    if isinstance(error, ssl.SSLError | ssl.CertificateError):
        return TransportError(f"no secure connection to {where}: {error}", cause="tls")
    if isinstance(error, ConnectionAbortedError | ConnectionResetError):
        return TransportError(f"{where} broke off the connection before it was made", cause="reset")
    if isinstance(error, OSError):
        return TransportError(f"{where} refused the connection", cause="refused")
    return TransportError(f"{where} is no URL that can be connected to", cause="protocol")
