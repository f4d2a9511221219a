"""uvicorn, with what it leaves open: limits on slow clients, and an end that always comes in order.

uvicorn puts no limit on the size of a request head (with httptools) or on the time a client takes to send
one, and lets a client that reads nothing keep its buffers for ever. Both are looked after here, by one sweep
over all connections a second and without a timer of their own for each. Imported only when HTTP is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Generator
from importlib.util import find_spec
from types import FrameType
from typing import Any, Final

import uvicorn

from ....settings import HttpOptions, Limits
from ...running import EXIT_INTERRUPTED, EXIT_TERMINATED, Watchdog
from ..server.app import HttpApp
from ..server.asgi import AsgiFace

CONNECTIONS: Final = 10_000
"""Connections at once; one more is answered with 503."""
FLUSH: Final = 1.0
"""Seconds connections have to close once everything has been said on them."""
INTERRUPTED: Final = 1.0
"""Seconds calls get to finish after SIGINT: somebody sits there and waits."""
MARGIN: Final = 5.0
"""Seconds for what comes with the drain, and again for what comes after it; then the process ends regardless."""
_SWEEP_EVERY: Final = 10
"""Ticks of uvicorn's main loop, which ticks ten times a second."""
_HEAD_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)


def has(module: str) -> bool:
    """Whether ``module`` is installed."""
    return find_spec(module) is not None


def configure(app: AsgiFace, limits: Limits, log_level: str, **tls: Any) -> uvicorn.Config:
    """How uvicorn runs ``app``: the fastest parser there is, and nothing in between."""
    config = uvicorn.Config(
        app,
        log_level=log_level,
        access_log=False,
        interface="asgi3",
        lifespan="on",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
        h11_max_incomplete_event_size=limits.header_bytes,
        ws_max_size=limits.message_size + 1,
        ws_per_message_deflate=False,  # it would cost each socket more memory than all of the rest
        ws=_sockets(),
        http=_http(limits),
        **tls,
    )
    # A client that sends rubbish gets its 400; it does not get to fill the log.
    logging.getLogger("uvicorn.error").addFilter(_not_about_clients)
    return config


def _http(limits: Limits) -> Any:
    if not has("httptools"):
        return "h11"
    return limited_protocol(limits.header_bytes)


def _sockets() -> Any:
    """The implementation of WebSockets that uvicorn is to use."""
    if not has("websockets"):
        return "none"
    from uvicorn.config import WS_PROTOCOLS

    return "websockets-sansio" if "websockets-sansio" in WS_PROTOCOLS else "auto"


def _not_about_clients(record: logging.LogRecord) -> bool:
    return not (
        record.levelno == logging.WARNING and str(record.msg).startswith(("Invalid HTTP", "Unsupported"))
    )


def limited_protocol(header_bytes: int) -> Any:
    """uvicorn's protocol for httptools, which refuses a request head that does not end."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    take = HttpToolsProtocol.data_received

    class LimitedProtocol(HttpToolsProtocol):
        _head: tuple[Any, int] = (None, 0)
        """Bytes of a head that is not complete yet, and the request before it."""

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            take(self, data)
            if self.cycle is not before:  # the usual case: a whole head has come
                return
            if before is None or before.response_complete or not before.more_body:  # pyright: ignore
                self._grow(data)

        def _grow(self, data: bytes) -> None:
            last, size = self._head
            size = size + len(data) if last is self.cycle else len(data)
            self._head = (self.cycle, size)
            if size > header_bytes and not self.transport.is_closing():
                self.transport.write(_HEAD_TOO_LARGE)
                self.transport.close()

    return LimitedProtocol


class Host(uvicorn.Server):
    """Runs one app until a signal; `status` is what the process should exit with.

    With a ``watchdog`` the process ends even if code of the author's blocks the loop or its end.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        app: HttpApp,
        options: HttpOptions,
        watchdog: Watchdog | None = None,
    ) -> None:
        super().__init__(config)
        self._app = app
        self._options = options
        self._watchdog = watchdog
        self._heads: dict[Any, tuple[Any, float]] = {}
        self._buffers: dict[Any, tuple[int, float]] = {}
        self.status = 0

    # --- slow clients ---------------------------------------------------------------------------------------

    async def on_tick(self, counter: int) -> bool:
        if counter % _SWEEP_EVERY == 0:
            self.sweep(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def sweep(self, now: float) -> None:
        """Cut the connections whose clients do not get to the end of a head, or read nothing."""
        heads: dict[Any, tuple[Any, float]] = {}
        buffers: dict[Any, tuple[int, float]] = {}
        connections: set[Any] = set(self.server_state.connections)
        for connection in connections:
            transport = connection.transport
            if transport is None:
                continue
            unsent = transport.get_write_buffer_size()
            if unsent:
                size, since = self._buffers.get(connection, (unsent + 1, now))
                since = now if unsent < size else since
                buffers[connection] = (unsent, since)
                if now - since > self._options.write_timeout:
                    transport.abort()
            cycle = getattr(connection, "cycle", connection)
            if cycle is None or (cycle is not connection and cycle.response_complete):
                same, since = self._heads.get(connection, (None, now))
                since = since if same is cycle else now
                heads[connection] = (cycle, since)
                if now - since > self._options.header_timeout:
                    transport.abort()
        self._heads, self._buffers = heads, buffers

    # --- the end --------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Take the signals while serving. uvicorn would raise them again afterwards, and so never exit with 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGINT:
            self.status = EXIT_INTERRUPTED
        if self._watchdog is not None and not self.should_exit:  # a second signal gives no second chance
            self._watchdog.arm(self._drain() + MARGIN, self.status or EXIT_TERMINATED)
        super().handle_exit(sig, frame)

    def _drain(self) -> float:
        return min(self._options.drain, INTERRUPTED) if self.status else self._options.drain

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await self._app.life.drain(0.0 if self.force_exit else self._drain())
        if self._watchdog is not None:
            self._watchdog.arm(MARGIN, self.status)
        connections: set[Any] = self.server_state.connections
        for connection in list(connections):
            connection.shutdown()
        await self._wait_for_connections()
        for connection in list(connections):
            connection.transport.abort()
        await super().shutdown(sockets)

    async def _wait_for_connections(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + FLUSH
        # uvicorn tells nobody when a connection has gone.
        while self.server_state.connections and loop.time() < until and not self.force_exit:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
