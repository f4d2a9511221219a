"""`client.fetch` by ourselves: a pool of HTTP/1.1 connections that are kept alive, and nothing else.

No cookies (a server must not recognise us by anything but its session id), no redirects, no bound on connections:
that is `Limits.max_outgoing_requests`, and behind a bound of its own, calls that wait for our answer could hold every
connection that the answer needs. Proxies are those of the environment, or the one that was given (`proxies`).
Everything that goes wrong is one `TransportError` with its cause in one word: refused, unresolved, tls, eof, reset,
timeout, protocol, proxy, closed.

A library was measured in this place and had 40 % of the time of a call; see docs/design/hot-path.md.
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
from .connect_socket import dial, refused
from .url_parts import Origin, shown
from .url_routes import SAFE, Route, request, route_to

try:
    from .http_connection import Connection, HttpResponse
except ModuleNotFoundError as error:
    if error.name != "httptools":
        raise
    raise extras.missing("httptools", "an HTTP target") from None

CONNECTION_KEPT: Final = 15.0
"""Seconds for which an idle connection is kept open."""
CONNECTIONS_SPARE: Final = 1000
"""Idle connections of one origin."""


class HttpFetch(Struct, frozen=True, kw_only=True):
    """Makes pools of connections."""

    verify: ssl.SSLContext | bool = True
    """False: trust everybody."""
    proxy: str | bool = True
    """A proxy's URL, False for none, True for what the environment says."""

    def session(self) -> ConnectionPool:
        return ConnectionPool(self.verify, self.proxy)


class ConnectionPool:
    """An open pool; leave it to close its connections. It belongs to the event loop it was entered in."""

    def __init__(
        self, verify: ssl.SSLContext | bool, proxy: str | bool, addresses: Sequence[str] | None = None
    ) -> None:
        self._verify = verify
        self._proxy = proxy
        self._addresses = addresses
        self._unused: defaultdict[Origin, deque[Connection]] = defaultdict(deque)
        self._open: set[Connection] = set()
        self._connecting: set[asyncio.Timeout] = set()
        self._routes: dict[str, Route] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def pinned(self, addresses: Sequence[str]) -> ConnectionPool:
        """A pool of its own, for requests to one host that was looked up already; see `dialing.dial`."""
        return ConnectionPool(self._verify, self._proxy, addresses)

    @property
    def connections(self) -> int:
        """Those that are open, and those that are being made."""
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
            await self._emptied  # asyncio closes a socket in the next turn of the loop

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
        connection = self._spare(route.address.origin)
        if connection is not None:
            try:
                response = await connection.request(data, method == "HEAD")
            except TransportError as error:
                # The server may have closed it just now. What does no harm twice is tried on a new one.
                if method not in SAFE or error.cause not in ("eof", "reset"):
                    raise
        if response is None:
            connection = await self._connect(route)
            response = await connection.request(data, method == "HEAD")
        if response.status == 407 and route.relayed and route.proxy is not None:
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
            raise TransportError(f"{shown(url)} did not answer within {timeout} s", cause="timeout") from None

    def _find_route(self, url: str) -> Route:
        if len(self._routes) >= CONNECTIONS_SPARE:
            self._routes.clear()
        route = self._routes[url] = route_to(url, self._proxy)
        return route

    # --- connections ----------------------------------------------------------------------------------------------

    async def _connect(self, route: Route) -> Connection:
        origin, where = route.address.origin, route.where
        attempt = asyncio.timeout(None)  # runs out when the session is closed
        self._connecting.add(attempt)
        try:
            async with attempt:
                connection = await dial(
                    lambda: Connection(where, origin, self._put_aside, self._forget),
                    origin,
                    where,
                    verify=self._verify,
                    proxy=route.proxy,
                    tunnel=not route.relayed,
                    addresses=self._addresses,
                )
        except TimeoutError:
            raise _closed() from None
        finally:
            self._connecting.discard(attempt)
        if connection.is_open:
            self._open.add(connection)
        return connection

    def _spare(self, origin: Origin) -> Connection | None:
        """The connection that was used last, so that the others can grow old."""
        unused = self._unused.get(origin)
        while unused:
            connection = unused.pop()
            age = monotonic() - connection.since
            # An unused connection has nothing to say but that it is over. Looked at every time: a request that is
            # sent into a closed one fails, and what came unasked would be taken for its answer.
            fresh = age < CONNECTION_KEPT and age < connection.patience
            if connection.reusable and fresh and not connection.pending(0):
                return connection
            connection.abort()
        return None

    def _put_aside(self, connection: Connection) -> None:
        unused = self._unused[connection.origin]
        connection.since = monotonic()
        unused.append(connection)
        if len(unused) > CONNECTIONS_SPARE:
            unused.popleft().abort()
        if self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(CONNECTION_KEPT, self._clear_out)

    def _clear_out(self) -> None:
        """Close what nobody used for long; look again when the next one may be old."""
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
            self._timer = self._loop.call_later(CONNECTION_KEPT - (now - oldest), self._clear_out)

    def _forget(self, connection: Connection) -> None:
        """It is closed. If it is among the unused, it is passed over there, and goes when it is old."""
        self._open.discard(connection)
        if self._emptied is not None and not self._open and not self._emptied.done():
            self._emptied.set_result(None)


def _closed() -> TransportError:
    return TransportError("the HTTP session was closed", cause="closed")
