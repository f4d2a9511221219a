"""Connection pool: HTTP/1.1 connections with keep-alive, the built-in implementation of `client.http_client`.

It has no cookies (a server must recognise a client only by its session id) and no redirects. It has no
connection limit: `Limits.max_outgoing_requests` limits requests. With a limit here, calls that wait for a
response of this client could block the connection for that response. Proxies come from the environment or
from the option (`proxies`). Every failure is one `TransportError` with a cause: refused, unresolved, tls,
eof, reset, timeout, protocol, proxy, closed.

A general HTTP library took 40 % of the time of a call here; see docs/design/hot-path.md.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Final

from msgspec import Struct

from .... import extras
from ....errors import StateError, TransportError
from .connect_socket import open_connection, refused
from .url_parts import Origin, displayed
from .url_routes import SAFE, UrlRoute, request, route_to

try:
    from .http_connection import HttpClientConnection, HttpResponse
except ModuleNotFoundError as error:
    if error.name != "httptools":
        raise
    raise extras.missing("httptools", "an HTTP target") from None

CONNECTION_KEPT: Final = 15.0
"""Seconds for which an idle connection is kept open."""
CONNECTIONS_SPARE: Final = 1000
"""Idle connections of one origin."""


class HttpFetch(Struct, frozen=True, kw_only=True):
    """Creates connection pools."""

    verify: ssl.SSLContext | bool = True
    """False: accept any certificate."""
    proxy: str | bool = True
    """A proxy URL, False for no proxy, True for the environment's."""

    def session(self) -> ConnectionPool:
        return ConnectionPool(self.verify, self.proxy)


class ConnectionPool:
    """An open pool. Leaving it closes its connections. It belongs to the event loop it was entered in."""

    def __init__(
        self, verify: ssl.SSLContext | bool, proxy: str | bool, addresses: Sequence[str] | None = None
    ) -> None:
        self._verify = verify
        self._proxy = proxy
        self._addresses = addresses
        self._unused: defaultdict[Origin, deque[HttpClientConnection]] = defaultdict(deque)
        self._open: set[HttpClientConnection] = set()
        self._connecting: set[asyncio.Timeout] = set()
        self._routes: dict[str, UrlRoute] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def pinned(self, addresses: Sequence[str]) -> ConnectionPool:
        """Return a separate pool for requests to one host with checked addresses; see `open_connection`."""
        return ConnectionPool(self._verify, self._proxy, addresses)

    @property
    def connections(self) -> int:
        """Number of connections, including those being opened."""
        return len(self._open) + len(self._connecting)

    async def __aenter__(self) -> ConnectionPool:
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
            await self._emptied  # asyncio closes a socket in the next loop iteration

    async def __call__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> HttpResponse:
        if timeout is not None:
            return await self._send_within(timeout, method, url, headers, body)
        if self._loop is not asyncio.get_running_loop():
            raise StateError("the HTTP session is not open in this event loop")
        route = self._routes.get(url) or self._find_route(url)
        data = request(method, route, headers, body)
        response: HttpResponse | None = None
        connection = self._idle_connection(route.address.origin)
        if connection is not None:
            try:
                response = await connection.request(data, method == "HEAD")
            except TransportError as error:
                # The server may have just closed it. Safe methods are retried on a new connection.
                if method not in SAFE or error.cause not in ("eof", "reset"):
                    raise
        if response is None:
            connection = await self._connect(route)
            response = await connection.request(data, method == "HEAD")
        if response.status == 407 and route.forwarded and route.proxy is not None:
            response.close()
            raise refused(route.proxy, 407, "", route.where)
        return response

    async def _send_within(
        self, timeout: float, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpResponse:
        try:
            async with asyncio.timeout(timeout):
                return await self(method, url, headers, body)
        except TimeoutError:
            raise TransportError(
                f"{displayed(url)} did not respond within {timeout} s", cause="timeout"
            ) from None

    def _find_route(self, url: str) -> UrlRoute:
        if len(self._routes) >= CONNECTIONS_SPARE:
            self._routes.clear()
        route = self._routes[url] = route_to(url, self._proxy)
        return route

    # --- connections ----------------------------------------------------------------------------------------

    async def _connect(self, route: UrlRoute) -> HttpClientConnection:
        origin, where = route.address.origin, route.where
        attempt = asyncio.timeout(None)  # expires when the session is closed
        self._connecting.add(attempt)
        try:
            async with attempt:
                connection = await open_connection(
                    lambda: HttpClientConnection(where, origin, self._make_idle, self._forget),
                    origin,
                    where,
                    verify=self._verify,
                    proxy=route.proxy,
                    tunnel=not route.forwarded,
                    addresses=self._addresses,
                )
        except TimeoutError:
            raise _closed() from None
        finally:
            self._connecting.discard(attempt)
        if connection.is_open:
            self._open.add(connection)
        return connection

    def _idle_connection(self, origin: Origin) -> HttpClientConnection | None:
        """Return the most recently used connection, so that the others can expire."""
        unused = self._unused.get(origin)
        while unused:
            connection = unused.pop()
            age = monotonic() - connection.since
            # An unused connection can only receive its end. This is checked every time: a request on a closed
            # connection fails, and unsolicited data would be taken for its response.
            fresh = age < CONNECTION_KEPT and age < connection.keep_alive_seconds
            if connection.reusable and fresh and not connection.pending(0):
                return connection
            connection.abort()
        return None

    def _make_idle(self, connection: HttpClientConnection) -> None:
        unused = self._unused[connection.origin]
        connection.since = monotonic()
        unused.append(connection)
        if len(unused) > CONNECTIONS_SPARE:
            unused.popleft().abort()
        if self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(CONNECTION_KEPT, self._close_expired)

    def _close_expired(self) -> None:
        """Close connections that were idle for too long; schedule the next check."""
        self._timer = None
        now = monotonic()
        oldest = now
        for origin, unused in list(self._unused.items()):
            while unused and now - unused[0].since >= CONNECTION_KEPT - 0.01:
                unused.popleft().abort()
            if unused:
                oldest = min(oldest, unused[0].since)
            else:
                del self._unused[origin]
        if self._unused and self._loop is not None:
            self._timer = self._loop.call_later(CONNECTION_KEPT - (now - oldest), self._close_expired)

    def _forget(self, connection: HttpClientConnection) -> None:
        """Remove a closed connection. If it is idle, it is skipped until it expires."""
        self._open.discard(connection)
        if self._emptied is not None and not self._open and not self._emptied.done():
            self._emptied.set_result(None)


def _closed() -> TransportError:
    return TransportError("the HTTP session was closed", cause="closed")
