"""Serve over HTTP, in one process or several, on the host of one's choice.

SIGTERM drains: readiness goes off, streams end in order, calls get their time, and the exit code is 0.
"""

from __future__ import annotations

import asyncio
import os
from importlib import import_module
from typing import Any, Final

from .... import extras
from ....drivers.pool import DaemonExecutor, Threads
from ....errors import DovetailError
from ....settings import HttpOptions
from ....stores.urls import check
from ....telemetry.crash import reported
from ...running import Watchdog, collecting_rarely, fast_loop, keep_blocks
from ..server.app import HttpApp
from ..server.beside import places
from ..server.exchange import HttpService
from ..server.identity import Identity
from .places import Place
from .process import READY, HostedApp, Work, give_store

HOSTS: Final = {"granian": "granian", "uvicorn": "uvicorn", "asyncio": "httptools"}
"""The HTTP servers there are a module for here, and the package each needs."""
_PLACE: Final = frozenset(Place.__struct_fields__)
_OPTIONS: Final = frozenset(HttpOptions.__struct_fields__)


def run(
    service: HttpService, /, *, workers: int = 1, again: tuple[str, str] | None = None, **options: Any
) -> int:
    """Serve until a signal ends it; the options are those of `serve`. Returns the exit status.

    ``again`` is for hosts whose workers import the server once more, see `process.Work`.
    """
    if workers <= 1:
        return _run(service, options)
    import tempfile  # 0.7 MiB that one process alone does without

    quiet, face = options.pop("quiet", False), options.pop("face", "rsgi")
    hosting = _hosting(options.pop("server", None) or usual_host(service, workers=workers, face=face))
    allow_remote = options.pop("allow_remote", False)
    open_ = allow_remote or service.auth is not None
    place, settings = _divide(options, allow_remote=open_)
    with tempfile.TemporaryDirectory(prefix="dovetail-") as folder:
        give_store(service, folder)
        check(service.store)  # said once, not by every worker
        places(service, settings, Identity(service, settings))
        work = Work(
            service=service, options=settings, place=place, count=workers, folder=folder, quiet=quiet,
            face=face, again=again,
        )  # fmt: skip
        keep_blocks()
        with collecting_rarely():  # and so do workers that are forked
            status = hosting.run_workers(work)
        # A supervisor may find it normal that no worker has ever started.
        return status if os.path.exists(os.path.join(folder, READY)) else status or 1


def _run(service: HttpService, options: dict[str, Any]) -> int:
    """Be the process: its end waits neither for the author's threads nor for tasks that do not give in."""
    watchdog = Watchdog()

    async def main() -> int:
        asyncio.get_running_loop().set_default_executor(DaemonExecutor(Threads(service.limits.max_threads)))
        return await serve(service, watchdog=watchdog, **options)

    keep_blocks()
    try:
        with collecting_rarely(), reported(), asyncio.Runner(loop_factory=fast_loop()) as runner:
            return runner.run(main())
    finally:
        watchdog.call_off()


async def serve(
    service: HttpService,
    /,
    *,
    server: str | None = None,
    face: str = "rsgi",
    allow_remote: bool = False,
    quiet: bool = False,
    watchdog: Watchdog | None = None,
    **options: Any,
) -> int:
    """Serve at ``http://host:port/mcp`` until cancelled or told to stop by a signal.

    ``server`` is the HTTP server to use: granian, uvicorn, or none but the event loop ("asyncio"); see `usual_host`
    for who serves where nobody says so. ``face`` is how
    granian speaks to us, "rsgi" (fast) or "asgi" (more can be done, see `docs/http.md`). ``uds`` serves on a Unix
    socket instead of ``host`` and ``port``; ``certfile`` and ``keyfile`` switch TLS on. Beyond loopback and without
    ``auth`` (or ``principal``) anybody could call, so that needs ``allow_remote=True``. Further options are members of
    `HttpOptions`. Returns the exit status: 0, or 130 after SIGINT.

    Raises:
        DovetailError: the address may not be served like this, or an extra is missing.
    """
    place, settings = _divide(options, allow_remote=allow_remote or service.auth is not None)
    hosting = _hosting(server or usual_host(service, face=face))
    app = HttpApp(service, settings)
    await app.life.start()
    try:
        host = hosting.Host(app, place, face=face)
    except BaseException:
        await app.life.stop()
        raise
    ready = None if quiet else lambda: place.announce(host.bound, settings)
    return await HostedApp(app, host, watchdog).run(ready)


def usual_host(service: HttpService, *, workers: int = 1, face: str = "rsgi") -> str:
    """Who serves where nobody says so: granian, which answers most calls a second and can do most.

    Where calls are passed on to other servers somebody waits for each of them, twice as long with granian's threads on
    the way: there it is the event loop itself, wherever that can do it.
    """
    return "asyncio" if service.forwards and workers <= 1 and face != "asgi" else "granian"


def _divide(options: dict[str, Any], *, allow_remote: bool) -> tuple[Place, HttpOptions]:
    """Where to serve, and what; refuses an address that would let in whoever can reach it, unless that is wanted.

    Raises:
        DovetailError: naming what to change.
    """
    unknown = sorted(options.keys() - _PLACE - _OPTIONS)
    if unknown:
        raise DovetailError(f"serving HTTP has no option {unknown[0]!r}; see HttpOptions")
    place = Place(**{name: value for name, value in options.items() if name in _PLACE})
    settings = HttpOptions(**{name: value for name, value in options.items() if name in _OPTIONS})
    if not place.local and not allow_remote and settings.principal is None and settings.auth is None:
        raise DovetailError(
            f"serving on {place.host} would let everybody who can reach it call this server: authenticate "
            "callers, or say allow_remote=True (--allow-remote)"
        )
    place.secured()  # hosts would say it each in words of its own, or with a traceback
    return place, settings


def _hosting(server: str) -> Any:
    """The module of an HTTP server."""
    if server not in HOSTS:
        raise DovetailError(f"there is no HTTP server {server!r}: use one of {', '.join(HOSTS)}")
    try:
        return import_module(f".{server}_host", __package__)
    except ImportError:
        raise extras.missing(HOSTS[server], "serving HTTP") from None
