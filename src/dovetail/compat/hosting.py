"""Serve an adapter in the event loop of the original's program, on the transport of the command line."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final

from msgspec import Struct

from ..transports import main_loop
from ..transports.bind_address import print_line, serving_on
from ..transports.loopback import is_loopback
from ..transports.main_loop import TEARDOWN_SECONDS
from .adapter import ServerAdapter
from .versions import HTTP_CONFIG, HTTP_SERVER, CompatError, load

DRAIN_SECONDS: Final = 5.0
"""How long calls over HTTP may run once the server stops."""
_HEALTH: Final = frozenset({"/livez", "/readyz"})


class ServeOptions(Struct, kw_only=True):
    """The transport and address of the command line."""

    transport: str
    """stdio, http, sse, tcp or unix."""
    host: str = "127.0.0.1"
    port: int = 8000
    uds: str | None = None
    path: str | None = None
    """The Unix socket of ``--unix``."""
    certfile: str | None = None
    keyfile: str | None = None
    allow_anonymous: bool = False
    json: bool = False
    http: dict[str, Any] = {}
    """Options of `dovetail.Server.asgi`."""


class Host:
    """Serves what the program starts."""

    def __init__(self, options: ServeOptions) -> None:
        self.options = options
        self.status = 0
        self._watchdog = main_loop.Watchdog()
        self.stop: main_loop.Stop

    @property
    def over_http(self) -> bool:
        return self.options.transport in ("http", "sse")

    @property
    def own_paths(self) -> frozenset[str]:
        """Paths that Dovetail answers itself."""
        return _HEALTH | {"/metrics"} if self.options.http.get("metrics") else _HEALTH

    def check(self) -> None:
        """Refuse an address that other machines can reach, unless the options permit it.

        Raises:
            CompatError: the server would listen on one.
        """
        options = self.options
        local = options.uds is not None or options.transport in ("stdio", "unix") or is_loopback(options.host)
        if not local and not options.allow_anonymous:
            raise CompatError(
                f"{options.host} can be reached from other machines, and Dovetail cannot see whether this server "
                "authenticates its clients: add --allow-anonymous if it does"
            )

    def begin(self) -> None:
        """Begin to serve in the running event loop."""
        self.stop = main_loop.Stop()

    def signals(self) -> AbstractContextManager[None]:
        """SIGINT and SIGTERM stop the server, and end the process if that takes too long."""
        times = main_loop.ShutdownTimes(DRAIN_SECONDS, TEARDOWN_SECONDS, 0.0, TEARDOWN_SECONDS)
        return main_loop.Signals(self.stop, self._watchdog, times)

    async def serve(self, adapter: ServerAdapter) -> None:
        """Serve until the client disconnects or a signal arrives."""
        self.begin()
        options = self.options
        if self.over_http:
            # The program has no HTTP application.
            app = adapter.app("/messages" if options.transport == "sse" else None)
            config = load(HTTP_CONFIG)(app, lifespan="on", log_config=None)
            await load(HTTP_SERVER)(config).serve()
            return
        with self.signals():
            if options.transport == "stdio":
                from ..transports import stdio

                await stdio.serve(adapter.proxy.dispatcher, stop=self.stop)
            else:
                await self._serve_stream(adapter)
        self.status = self.stop.status

    async def _serve_stream(self, adapter: ServerAdapter) -> None:
        from ..transports import tcp

        options = self.options

        def ready(listener: tcp.StreamListener) -> None:
            where = f"unix:{options.path}" if options.path else f"tcp://{_authority(*listener.address[:2])}"
            print_line(serving_on(where, json=options.json))

        if options.path:
            await tcp.serve(
                adapter.proxy.dispatcher, None, None, path=options.path, stop=self.stop, ready=ready
            )
            return
        await tcp.serve(
            adapter.proxy.dispatcher,
            options.host,
            options.port,
            allow_anonymous=options.allow_anonymous,
            stop=self.stop,
            ready=ready,
        )

    def bind(self, config: Any) -> None:
        """Give the HTTP server the address of the command line."""
        options = self.options
        config.host, config.port, config.uds, config.fd = options.host, options.port, options.uds, None
        if options.certfile is not None:
            config.ssl_certfile, config.ssl_keyfile = options.certfile, options.keyfile
        if config.timeout_graceful_shutdown is None:
            config.timeout_graceful_shutdown = int(DRAIN_SECONDS)

    def announce(self, http_server: Any) -> None:
        """Print where the HTTP server listens."""
        options, sockets = self.options, [one for server in http_server.servers for one in server.sockets]
        if options.uds is not None:
            print_line(serving_on(f"unix:{options.uds}", json=options.json))
            return
        port = sockets[0].getsockname()[1] if sockets else options.port
        scheme, path = (
            "https" if options.certfile else "http",
            "/sse" if options.transport == "sse" else "/mcp",
        )
        print_line(serving_on(f"{scheme}://{_authority(options.host, port)}{path}", json=options.json))


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
