"""Serve over HTTP on uvicorn, in one process or several.

SIGTERM drains: readiness goes off, streams end in order, calls get their time, and the exit code is 0.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final

import msgspec

from ....drivers.pool import DaemonExecutor, Threads
from ....errors import DovetailError
from ....settings import HttpOptions
from ...running import Watchdog
from ..server.app import HttpApp
from ..server.asgi import AsgiFace
from ..server.ended_sessions import EndedSessions
from ..server.exchange import HttpService
from ..server.guards import is_loopback
from .workers import Supervisor

BACKLOG: Final = 2048


def run(server: HttpService, *, workers: int = 1, **options: Any) -> int:
    """Serve until a signal ends it; the options are those of `serve`. Returns the exit status."""
    if workers <= 1:
        return _run(server, options)
    if not hasattr(os, "fork"):
        raise DovetailError("several workers need fork(), which this system does not have: use workers=1")
    where = {name: options.pop(name) for name in ("host", "port", "uds") if name in options}
    check(options, **where)
    # A worker ends by itself before that, unless its watchdog cannot run either.
    patience = options.get("drain", HttpOptions().drain) + 2 * _hosting().MARGIN + 1.0
    listener = listen(**where)
    _announce(listener, options)
    descriptor, path = tempfile.mkstemp(prefix="dovetail-")
    os.close(descriptor)

    def work(seat: int) -> int:
        ended = EndedSessions(path)
        return _run(server, {**options, "allow_remote": True, "listener": listener, "ended": ended})

    try:
        return Supervisor(workers, work, patience).run()
    finally:
        os.unlink(path)
        listener.close()
        _remove(where.get("uds"))


def _run(server: HttpService, options: dict[str, Any]) -> int:
    """Be the process: its end waits neither for the author's threads nor for tasks that do not give in."""
    watchdog = Watchdog()

    async def main() -> int:
        asyncio.get_running_loop().set_default_executor(DaemonExecutor(Threads(server.limits.threads)))
        return await serve(server, watchdog=watchdog, **options)

    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(main())
    finally:
        watchdog.call_off()


async def serve(
    server: HttpService,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    uds: str | None = None,
    listener: socket.socket | None = None,
    ssl_context: ssl.SSLContext | None = None,
    certfile: str | None = None,
    keyfile: str | None = None,
    allow_remote: bool = False,
    log_level: str = "warning",
    quiet: bool = False,
    ended: EndedSessions | None = None,
    watchdog: Watchdog | None = None,
    **options: Any,
) -> int:
    """Serve ``server`` at ``http://host:port/mcp`` until cancelled or told to stop by a signal.

    ``uds`` serves on a Unix socket instead, ``listener`` on a socket that is bound already; ``certfile`` and
    ``keyfile``, or an ``ssl_context``, switch TLS on. Beyond loopback and without ``principal``
    (authentication) anybody could call, so that needs ``allow_remote=True``. Further options are members of
    `HttpOptions`. Returns the exit status: 0, or 130 after SIGINT.

    Raises:
        DovetailError: the address may not be served like this, or the ``http`` extra is missing.
    """
    check({**options, "allow_remote": allow_remote}, host=host, port=port, uds=uds)
    settings = msgspec.structs.replace(HttpOptions(), shared=ended is not None, **options)
    hosting = _hosting()
    app = HttpApp(server, settings, ended)
    config = hosting.configure(
        AsgiFace(app), server.limits, log_level, ssl_certfile=certfile, ssl_keyfile=keyfile
    )
    config.load()
    if ssl_context is not None:
        config.ssl = ssl_context
    own = listen(host, port, uds) if listener is None else None
    if own is not None and not quiet:
        _announce(own, {"tls": config.is_ssl or ssl_context is not None, **options})
    runner = hosting.Host(config, app, settings, watchdog)
    try:
        await runner.serve(sockets=[own or listener])
    finally:
        if own is not None:
            own.close()
            _remove(uds)
    return runner.status


def check(options: dict[str, Any], host: str = "127.0.0.1", port: int = 0, uds: str | None = None) -> None:
    """Refuse an address that would let in whoever can reach it, unless that is wanted.

    Raises:
        DovetailError: naming what to change.
    """
    known = {field.name for field in msgspec.structs.fields(HttpOptions)} | _OWN
    unknown = sorted(set(options) - known)
    if unknown:
        raise DovetailError(f"serving HTTP has no option {unknown[0]!r}; see HttpOptions")
    wanted = options.get("allow_remote") or options.get("principal") is not None
    if uds is None and not is_loopback(host) and not wanted:
        raise DovetailError(
            f"serving on {host} would let everybody who can reach it call this server: authenticate "
            "callers, or say allow_remote=True (--allow-remote)"
        )


_OWN: Final = {
    "certfile",
    "keyfile",
    "ssl_context",
    "allow_remote",
    "log_level",
    "quiet",
    "listener",
    "ended",
}


def _hosting() -> Any:
    try:
        from . import uvicorn_host as host
    except ImportError:
        raise DovetailError("serving HTTP needs an extra: pip install 'dovetail[http]'") from None
    return host


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if find_spec("uvloop") is not None:
        import uvloop

        return uvloop.new_event_loop
    return None


# --- sockets --------------------------------------------------------------------------------------------


def listen(host: str = "127.0.0.1", port: int = 8000, uds: str | None = None) -> socket.socket:
    """A listening socket. A Unix socket that nobody listens on any more is replaced.

    Raises:
        DovetailError: the address is taken or does not exist.
    """
    family = socket.AF_UNIX if uds is not None else socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        if uds is not None:
            _remove_stale(uds)
            listener.bind(uds)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        where = uds if uds is not None else f"{host}:{port}"
        raise DovetailError(f"cannot serve on {where}: {error.strerror or error}") from None
    return listener


def _remove_stale(path: str) -> None:
    if not os.path.exists(path) or not stat.S_ISSOCK(os.stat(path).st_mode):
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)


def _remove(path: str | None) -> None:
    if path is not None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


def _announce(listener: socket.socket, options: dict[str, Any]) -> None:
    if options.get("quiet"):
        return
    name: Any = listener.getsockname()
    path = options.get("path", HttpOptions().path)
    secure = options.get("tls") or options.get("certfile") or options.get("ssl_context")
    scheme = "https" if secure else "http"
    where = f"unix:{name}" if isinstance(name, str) else f"{scheme}://{_bracketed(name[0])}:{name[1]}"
    print(f"dovetail: serving on {where}{path}", file=sys.stderr, flush=True)  # noqa: T201  said once, to whoever started us


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
