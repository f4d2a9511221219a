"""Serve over HTTP: `serve` in a running event loop, `run` as the program of one process or of several workers.

SIGTERM starts a graceful shutdown: readiness goes off, event streams are completed, requests in flight get
`HttpOptions.shutdown_grace_period`, and the exit status is 0.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from ... import extras
from ...core.principal import Principal
from ...drivers.thread_pool import DaemonExecutor, ThreadPool
from ...errors import DovetailError
from ...settings import HttpOptions
from ..bind_address import BindAddress, print_line
from ..main_loop import STOPPING, ShutdownTimes, Signals, Stop, Watchdog, fast_loop, format_unconfigured_logs
from .server.app import HttpApp, reserved_paths
from .server.ended_sessions import EndedSessions
from .server.http_exchange import HttpService
from .server.identity import CallerIdentity

HTTP_INTERRUPTED: Final = 1.0
"""Seconds that requests get to finish after SIGINT, when a user waits at the terminal."""
HTTP_MARGIN: Final = 5.0
"""Seconds for each phase of the shutdown before and after the drain; then the process exits in any case."""

_ADDRESS: Final = frozenset(BindAddress.__struct_fields__)
_OPTIONS: Final = frozenset(HttpOptions.__struct_fields__)
STORE: Final = "state.db"
"""The file of the store that several workers share if the server has none."""
METRICS: Final = "metrics"
"""The folder for metrics shared by the workers."""


class HttpServer:
    """One process that serves ``app`` on a bound socket; ``stop`` ends it."""

    def __init__(self, app: HttpApp, address: BindAddress, bound: socket.socket) -> None:
        from .listener import HttpListener

        self.app = app
        self.stop = Stop()
        limits, options = app.service.limits, app.options
        self._listener = HttpListener(
            app,
            bound,
            options=options,
            max_header_bytes=limits.max_header_bytes,
            tls=address.ssl_context(),
            websockets=app,
        )

    async def run(
        self,
        ready: Callable[[], object] | None = None,
        stopping: Callable[[], object] | None = None,
        *,
        watchdog: Watchdog | None = None,
        worker: bool = False,
    ) -> int:
        """Serve until a signal or ``stop``. Returns the exit status.

        ``ready`` is called when connections are accepted, ``stopping`` when the drain begins. A ``worker``
        stops accepting as soon as it drains, because other processes accept on the same socket.
        """
        state, options = self.app.state, self.app.options
        grace = options.shutdown_grace_period
        times = ShutdownTimes(grace, HTTP_MARGIN, min(grace, HTTP_INTERRUPTED), HTTP_MARGIN)
        drain = 0.0  # if this is cancelled
        with Signals(self.stop, watchdog, times, repeated=not worker):
            try:
                await state.start()
                await self._listener.start()
                try:
                    if ready is not None:
                        ready()
                    await self.stop.wait()
                    drain = self.stop.drain
                    if stopping is not None:
                        stopping()
                    if worker:
                        self._listener.stop_accepting()
                finally:
                    await state.drain(drain)
                    if watchdog is not None:
                        watchdog.arm(HTTP_MARGIN, self.stop.status)
                    await self._listener.close()
            finally:
                await self.app.service.stop()
        return self.stop.status


def run(service: HttpService, /, *, workers: int = 1, **options: Any) -> int:
    """Serve until a signal ends it, in ``workers`` processes; the options are those of `serve`.

    Returns the exit status.
    """
    quiet, allow_anonymous = options.pop("quiet", False), options.pop("allow_anonymous", False)
    address, settings = _split(service, options, allow_anonymous=allow_anonymous)
    if workers > 1:
        return _run_workers(service, address, settings, workers, quiet=quiet)
    bound = address.listen()
    file = address.socket_file()
    try:
        output = _Output(address, settings, bound, quiet=quiet)
        return _run_process(HttpApp(service, settings), address, bound, output.ready, output.stopping)
    finally:
        bound.close()
        address.remove_socket_file(file)


async def serve(
    service: HttpService, /, *, allow_anonymous: bool = False, quiet: bool = False, **options: Any
) -> int:
    """Serve at ``http://host:port/mcp`` until cancelled or stopped by a signal.

    ``uds`` serves on a Unix socket instead of ``host`` and ``port``. ``certfile`` and ``keyfile`` enable TLS.
    ``client_ca`` requires client certificates, whose subject is the principal. An address other than loopback
    needs ``auth``, ``principal`` or ``client_ca``, or ``allow_anonymous=True``. Further options are members of
    `HttpOptions`.
    Returns the exit status: 0, or 130 after SIGINT.

    Raises:
        DovetailError: the address must not be served with these options, or an extra is missing.
    """
    address, settings = _split(service, options, allow_anonymous=allow_anonymous)
    bound = address.listen()
    file = address.socket_file()
    try:
        server = HttpServer(HttpApp(service, settings), address, bound)
        output = _Output(address, settings, bound, quiet=quiet)
        return await server.run(output.ready, output.stopping)
    finally:
        bound.close()
        address.remove_socket_file(file)


def _run_process(
    app: HttpApp,
    address: BindAddress,
    bound: socket.socket,
    ready: Callable[[], object],
    stopping: Callable[[], object] | None = None,
    *,
    worker: bool = False,
) -> int:
    """Run the serving process.

    Its exit waits neither for threads nor for tasks that ignore their cancellation.
    """
    watchdog = Watchdog()

    async def main() -> int:
        threads = ThreadPool(app.service.limits.max_threads)
        asyncio.get_running_loop().set_default_executor(DaemonExecutor(threads))
        return await HttpServer(app, address, bound).run(ready, stopping, watchdog=watchdog, worker=worker)

    format_unconfigured_logs()
    try:
        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            return runner.run(main())
    except Exception as error:
        from ...telemetry.crash_report import report  # a server loads it only here

        report(error)
        raise
    finally:
        watchdog.cancel()


def _run_workers(
    service: HttpService, address: BindAddress, settings: HttpOptions, count: int, *, quiet: bool
) -> int:
    """Supervise ``count`` workers until a signal.

    Objects that processes cannot share are created in each worker.
    """
    import tempfile  # a single process does not need it

    from ...stores.store_urls import check
    from .workers import Supervisor

    with tempfile.TemporaryDirectory(prefix="dovetail-") as folder:
        share_store(service, folder)
        check(service.store)  # an unusable store is reported once, not by every worker
        reserved_paths(service, settings, CallerIdentity(service, settings))  # so is an unreachable route

        def work(ready: Callable[[], None]) -> int:
            app = HttpApp(service, settings, EndedSessions(folder))
            if app.scraping is not None:
                app.scraping.metrics.join(os.path.join(folder, METRICS))
            return _run_process(app, address, bound, ready, worker=True)

        bound = address.listen()
        file = address.socket_file()
        output = _Output(address, settings, bound, quiet=quiet)

        try:
            return Supervisor(
                count,
                work,
                # A worker exits earlier, unless its watchdog cannot run.
                kill_after=settings.shutdown_grace_period + 2 * HTTP_MARGIN + 1.0,
                on_ready=output.ready,
                on_signal=output.stopping,
                on_stop=bound.close,
            ).run()
        finally:
            bound.close()
            address.remove_socket_file(file)


def share_store(service: HttpService, folder: str) -> None:
    """Create a store that several processes share, unless the server has one.

    Raises:
        DovetailError: the store of the server cannot be shared between processes.
    """
    from ...stores.memory_store import MemoryStore

    if isinstance(service.store, MemoryStore):
        raise DovetailError("several workers need a shared store: SQLite or Redis (--store)")
    if service.store is None:
        from ...stores.sqlite import SqliteStore  # a single process does not need it

        service.use_store(SqliteStore(os.path.join(folder, STORE)))


def _certificate_owner(scope: Mapping[str, Any]) -> Principal | None:
    """Return the subject of the client certificate, which TLS has verified."""
    from ...auth.server.connection_auth import certificate_principal

    return certificate_principal(scope.get("peer_certificate"))


class _Output:
    """Prints the status lines of a server, unless ``quiet``."""

    def __init__(
        self, address: BindAddress, settings: HttpOptions, bound: socket.socket, *, quiet: bool
    ) -> None:
        self._quiet = quiet
        self._announcement = address.announcement(bound, settings)

    def ready(self) -> None:
        if not self._quiet:
            print_line(self._announcement)

    def stopping(self) -> None:
        if not self._quiet:
            print_line(STOPPING)


def _split(
    service: HttpService, options: dict[str, Any], *, allow_anonymous: bool
) -> tuple[BindAddress, HttpOptions]:
    """Split the options into the address and the settings of the application, and check both.

    Raises:
        DovetailError: an option is unknown or not allowed.
    """
    if not extras.installed("httptools"):
        raise extras.missing("httptools", "serving HTTP")
    unknown = sorted(options.keys() - _ADDRESS - _OPTIONS)
    if unknown:
        raise DovetailError(f"unknown option {unknown[0]!r} for serving HTTP; see HttpOptions")
    address = BindAddress(**{name: value for name, value in options.items() if name in _ADDRESS})
    settings = HttpOptions(**{name: value for name, value in options.items() if name in _OPTIONS})
    if address.client_ca is not None and settings.principal is None and settings.auth is None:
        settings = replace(settings, principal=_certificate_owner)
    known = service.auth is not None or settings.principal is not None or settings.auth is not None
    if not address.local and not allow_anonymous and not known:
        raise DovetailError(
            f"{address.host} can be reached from other machines, and the server does not authenticate its callers: "
            "give it auth=, or permit that with allow_anonymous=True (--allow-anonymous)"
        )
    address.ssl_context()  # reports an unusable certificate before anything starts
    return address, settings
