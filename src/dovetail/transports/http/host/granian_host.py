"""granian: HTTP in Rust, calls in Python. What the extra `http` brings.

One process embeds it in our event loop; several are granian's own workers. It speaks RSGI to us, which is the fast
way, or ASGI, which can do more (see `..server.rsgi`). Imported only when HTTP is served.
"""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections import deque
from math import ceil
from pathlib import Path
from typing import Any, Final

from granian import Granian
from granian.constants import HTTPModes, Interfaces, Loops, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server

from ....errors import DovetailError
from ....settings import (
    HTTP_BACKLOG,
    HTTP_CONNECTIONS,
    HTTP_MARGIN,
    WORKER_DEATHS,
    WORKER_DEATHS_SECONDS,
    HttpOptions,
    Limits,
)
from ..server.app import HttpApp
from ..server.asgi import AsgiFace
from ..server.rsgi import RsgiFace
from .places import Place
from .process import Work, WorkerApp, forget_signals_in_forks, supervised

LOGGING: Final[dict[str, Any]] = {
    "version": 1, "incremental": True, "formatters": {}, "handlers": {}, "loggers": {"_granian": {}},
}  # fmt: skip
"""granian configures logging anew, which would close every handler there is; unless it is told to add nothing."""


SMALLEST_BUFFER: Final = 8192
"""Bytes hyper wants for a head; with less it ends the process."""


class Host:
    """granian in this process."""

    def __init__(self, app: HttpApp, place: Place, *, face: str = "rsgi") -> None:
        self.bound = place.reserve()
        self._place = place
        self._life = app.life
        options = _options(place, self.bound, app.service.limits, app.options)
        local = place.address_of(self.bound)
        target: Any = RsgiFace(app, local=local).__rsgi__ if face == "rsgi" else AsgiFace(app)
        interface = Interfaces.RSGI if face == "rsgi" else Interfaces.ASGINL
        # Its only warning is that the embedded server is an experiment.
        self._server = Server(target, interface=interface, log_level=LogLevels.error, **options)

    async def serve(self) -> None:
        try:
            await self._server.serve()
        finally:
            self.bound.close()
            self._place.remove()

    async def started(self) -> None:
        await self._place.reachable(self.bound)
        self._life.reached()

    def stop(self) -> None:
        self._server.stop()


class _Begun(dict[int, float]):
    """When granian began a worker again, which it asks when one has died: seconds ago means that it gives up.

    One that is killed twice is no reason to end all the others, so it hears that only after so many deaths.
    """

    def __init__(self) -> None:
        super().__init__()
        self._deaths = deque([-WORKER_DEATHS_SECONDS] * WORKER_DEATHS, maxlen=WORKER_DEATHS)

    def get(self, worker: int, default: Any = 0) -> Any:
        self._deaths.append(time.monotonic())
        crashing = self._deaths[-1] - self._deaths[0] < WORKER_DEATHS_SECONDS
        return self._deaths[-1] if crashing else default


def run_workers(work: Work) -> int:
    """Serve in processes of granian's until a signal. Returns the exit status.

    They are forked, so each has this very server and its keys; it need not be imported again.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        raise DovetailError("several workers need fork(), which this system does not have: use workers=1")
    options, place, rsgi = work.options, work.place, work.face == "rsgi"
    bound = place.reserve()

    async def announce() -> None:
        await place.reachable(bound)
        place.announce(bound, options)

    def load() -> Any:
        worker = WorkerApp(work.service, options, work.folder, None if work.quiet else announce)
        local = place.address_of(bound)
        return RsgiFace(worker.app, worker, local) if rsgi else AsgiFace(worker.app, worker)

    server = Granian(
        "dovetail",
        interface=Interfaces.RSGI if rsgi else Interfaces.ASGI,
        workers=work.count,
        loop=Loops.auto,
        respawn_failed_workers=True,
        # A worker ends by itself before that, unless its watchdog cannot run either.
        workers_kill_timeout=ceil(options.shutdown_grace_period + 2 * HTTP_MARGIN + 1.0),
        log_level=LogLevels.warning,
        **_options(place, bound, work.service.limits, options),
    )
    server.respawned_wrks = _Begun()
    forget_signals_in_forks()
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("fork", force=True)
    try:
        return supervised(lambda: server.serve(target_loader=load, wrap_loader=False))
    finally:
        multiprocessing.set_start_method(before, force=True)
        bound.close()
        place.remove()


def _options(place: Place, bound: socket.socket, limits: Limits, options: HttpOptions) -> dict[str, Any]:
    found: dict[str, Any] = {
        "http": HTTPModes.http1,
        "backlog": HTTP_BACKLOG,
        "backpressure": HTTP_CONNECTIONS,
        "http1_settings": HTTP1Settings(
            header_read_timeout=int(options.header_timeout * 1000),
            max_buffer_size=max(SMALLEST_BUFFER, limits.max_header_bytes),
        ),
        "websockets": options.websocket,
        "log_dictconfig": LOGGING,
    }
    if place.uds is not None:
        found["uds"] = Path(place.uds)
    else:
        found["address"], found["port"] = bound.getsockname()[:2]
    if place.certfile is not None:
        key = place.keyfile or place.certfile
        found |= {"ssl_cert": Path(place.certfile), "ssl_key": Path(key)}
        found["ssl_protocol_min"] = SSLProtocols.tls12
    return found
