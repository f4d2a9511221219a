"""Serve an adapter in the event loop of the original's program, on the transport of the command line."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final

from msgspec import Struct

from ..transports import main_loop
from ..transports.bind_address import print_line, serving_on
from ..transports.loopback import is_loopback
from ..transports.main_loop import TEARDOWN_SECONDS
from .adapter import Adapter
from .versions import HTTP_CONFIG, HTTP_SERVER, CompatError, load

DRAIN_SECONDS: Final = 5.0
"""How long calls over HTTP may go on once the server stops."""
_HEALTH: Final = frozenset({"/livez", "/readyz"})


class Wanted(Struct, kw_only=True):
    """What the command line wants."""

    transport: str
    """stdio, http, sse, tcp or unix."""
    host: str = "127.0.0.1"
    port: int = 8000
    uds: str | None = None
    path: str | None = None
    """The Unix socket of ``--unix``."""
    certfile: str | None = None
    keyfile: str | None = None
    allow_remote: bool = False
    json: bool = False
    http: dict[str, Any] = {}
    """Options of `dovetail.Server.asgi`."""


class Host:
    """Serves what the program starts."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.status = 0
        self._watchdog = main_loop.Watchdog()
        self.stop: main_loop.Stop

    @property
    def over_http(self) -> bool:
        return self.wanted.transport in ("http", "sse")

    @property
    def own_paths(self) -> frozenset[str]:
        """Paths that Dovetail answers itself."""
        return _HEALTH | {"/metrics"} if self.wanted.http.get("metrics") else _HEALTH

    def check(self) -> None:
        """Refuse an address that strangers can reach, unless that is wanted.

        Raises:
            CompatError: it is one.
        """
        wanted = self.wanted
        local = wanted.uds is not None or wanted.transport in ("stdio", "unix") or is_loopback(wanted.host)
        if not local and not wanted.allow_remote:
            raise CompatError(
                f"{wanted.host} can be reached from other machines, and Dovetail cannot see whether this server "
                "authenticates its clients: add --allow-remote if it does"
            )

    def begin(self) -> None:
        """An event loop serves from now on."""
        self.stop = main_loop.Stop()

    def signals(self) -> AbstractContextManager[None]:
        """SIGINT and SIGTERM stop the server, and end the process if that takes too long."""
        times = main_loop.ShutdownTimes(DRAIN_SECONDS, TEARDOWN_SECONDS, 0.0, TEARDOWN_SECONDS)
        return main_loop.Signals(self.stop, self._watchdog, times)

    async def serve(self, adapter: Adapter) -> None:
        """Serve until the client leaves or a signal comes."""
        self.begin()
        wanted = self.wanted
        if self.over_http:
            # The program has no HTTP application.
            app = adapter.app("/messages" if wanted.transport == "sse" else None)
            config = load(HTTP_CONFIG)(app, lifespan="on", log_config=None)
            await load(HTTP_SERVER)(config).serve()
            return
        with self.signals():
            if wanted.transport == "stdio":
                from ..transports import stdio

                await stdio.serve(adapter.proxy, stop=self.stop)
            else:
                await self._serve_stream(adapter)
        self.status = self.stop.status

    async def _serve_stream(self, adapter: Adapter) -> None:
        from ..transports import tcp

        wanted = self.wanted

        def ready(listener: tcp.Listener) -> None:
            where = f"unix:{wanted.path}" if wanted.path else f"tcp://{_authority(*listener.address[:2])}"
            print_line(serving_on(where, json=wanted.json))

        if wanted.path:
            await tcp.serve(adapter.proxy, None, None, path=wanted.path, stop=self.stop, ready=ready)
            return
        await tcp.serve(
            adapter.proxy,
            wanted.host,
            wanted.port,
            allow_remote=wanted.allow_remote,
            stop=self.stop,
            ready=ready,
        )

    def bind(self, config: Any) -> None:
        """Give the HTTP server the address of the command line."""
        wanted = self.wanted
        config.host, config.port, config.uds, config.fd = wanted.host, wanted.port, wanted.uds, None
        if wanted.certfile is not None:
            config.ssl_certfile, config.ssl_keyfile = wanted.certfile, wanted.keyfile
        if config.timeout_graceful_shutdown is None:
            config.timeout_graceful_shutdown = int(DRAIN_SECONDS)

    def announce(self, http_server: Any) -> None:
        """Say where the HTTP server listens."""
        wanted, sockets = self.wanted, [one for server in http_server.servers for one in server.sockets]
        if wanted.uds is not None:
            print_line(serving_on(f"unix:{wanted.uds}", json=wanted.json))
            return
        port = sockets[0].getsockname()[1] if sockets else wanted.port
        scheme, path = "https" if wanted.certfile else "http", "/sse" if wanted.transport == "sse" else "/mcp"
        print_line(serving_on(f"{scheme}://{_authority(wanted.host, port)}{path}", json=wanted.json))


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
