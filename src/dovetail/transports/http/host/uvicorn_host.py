"""uvicorn as a plain ASGI host: ``--server uvicorn``, with the extra of that name.

One process runs it in our event loop; several are uvicorn's own, which start from nothing and import the server again:
they need to be told its file. Imported only when HTTP is served.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from functools import partial
from importlib.util import find_spec
from math import ceil
from typing import Any, Final

import msgspec
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ....errors import DovetailError
from ....settings import HTTP_CONNECTIONS, HTTP_FLUSH, HTTP_LOOK, HTTP_MARGIN, HttpOptions, Limits
from ....wire.seal import Keys, Seal
from ..server.app import HttpApp
from ..server.asgi import AsgiFace
from ..server.exchange import HttpService
from .heads import Heads
from .paced import Paced
from .places import Place, say
from .process import Work, WorkerApp, give_store, supervised

TOLD: Final = "DOVETAIL_WORKER"
"""The environment variable in which workers are told what they serve."""


class Host:
    """uvicorn in this process."""

    def __init__(self, app: HttpApp, place: Place, *, face: str = "asgi") -> None:
        self.bound = place.listen()
        self._place = place
        self._life = app.life
        config = uvicorn.Config(
            AsgiFace(app), lifespan="off", **_options(place, app.options, app.service.limits, HTTP_FLUSH)
        )
        self._server = uvicorn.Server(config)

    async def serve(self) -> None:
        try:
            await self._server.serve(sockets=[self.bound])
        finally:
            self.bound.close()
            self._place.remove()

    async def started(self) -> None:
        # Nobody says so; there is only something to look at.
        while not self._server.started:  # noqa: ASYNC110
            await asyncio.sleep(HTTP_LOOK)
        self._life.reached()

    def stop(self) -> None:
        self._server.should_exit = True


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has to know."""

    target: str
    """What the author's file is called; for whoever imports it again."""
    options: HttpOptions
    folder: str
    key: str
    """The name of the key that the parent's server seals with."""
    secret: str
    """The key for all workers, unless the author's file brings one."""
    announcement: str | None
    """What the first worker says when it has started; before that nobody would hear of a signal."""


def run_workers(work: Work) -> int:
    """Serve in processes of uvicorn's until a signal. Returns the exit status."""
    if work.again is None:
        raise DovetailError(
            "several workers of uvicorn import the server again: use `dovetail run FILE --http --server uvicorn "
            "--workers N`, or granian"
        )
    if work.options.principal is not None or work.options.auth is not None:
        raise DovetailError(
            "several workers of uvicorn can be given no principal or auth: use Server(auth=…)"
        )
    (factory, target), place, service = work.again, work.place, work.service
    key, secret = service.seal.keys.current.id, secrets.token_hex(32)
    bound = place.listen()
    announcement = None if work.quiet else place.announcement(bound, work.options)
    told = Told(
        target=target, options=work.options, folder=work.folder, key=key, secret=secret, announcement=announcement
    )  # fmt: skip
    os.environ[TOLD] = msgspec.json.encode(told).decode()
    how = _options(place, work.options, service.limits, work.options.shutdown_grace_period + 2 * HTTP_MARGIN)
    try:
        return supervised(
            lambda: uvicorn.run(
                factory, factory=True, workers=work.count, fd=bound.fileno(), lifespan="on", **how
            )
        )
    finally:
        bound.close()
        place.remove()
        del os.environ[TOLD]


def told() -> Told:
    """What this process was told by the one that started it."""
    return msgspec.json.decode(os.environ[TOLD], type=Told)


def worker(service: HttpService, told: Told) -> AsgiFace:
    """The application of one worker; ``service`` has been imported again."""
    if service.seal.keys.current.id != told.key:
        service.seal = Seal(Keys(bytes.fromhex(told.secret)), service.limits.max_request_state_bytes)

    async def announce() -> None:
        if told.announcement is not None:
            say(told.announcement)

    give_store(service, told.folder)
    one = WorkerApp(service, told.options, told.folder, announce)
    return AsgiFace(one.app, one)


def _options(place: Place, options: HttpOptions, limits: Limits, seconds: float) -> dict[str, Any]:
    """How uvicorn runs an app: the fastest parser there is, and nothing in between."""
    # A client that sends rubbish hears so; it does not get to fill the log.
    logging.getLogger("uvicorn.error").addFilter(_not_about_clients)
    return {
        "log_config": None,
        "log_level": "warning",
        "access_log": False,
        "interface": "asgi3",
        "http": partial(
            Heads, _parser(), limits.max_header_bytes, 2 * limits.max_message_bytes, options.header_timeout
        ),
        "server_header": False,
        "proxy_headers": False,
        "limit_concurrency": HTTP_CONNECTIONS,
        "timeout_graceful_shutdown": ceil(seconds),
        "h11_max_incomplete_event_size": limits.max_header_bytes,
        "ws_max_size": limits.on_websocket().max_message_bytes + 1,
        "ws_per_message_deflate": False,  # it would cost each socket more memory than all of the rest
        "ws": Paced if find_spec("websockets") is not None else "none",
        "ssl_certfile": place.certfile,
        "ssl_keyfile": place.keyfile,
    }


def _parser() -> type[asyncio.Protocol]:
    """The fastest one there is that knows a trailer from a header."""
    if find_spec("httptools") is None:
        return H11Protocol
    from .trailers import WithoutTrailers

    return WithoutTrailers


_CLIENTS: Final = (
    "Invalid HTTP",
    "Invalid UTF-8",
    "Unsupported upgrade",
    "ASGI callable returned without completing handshake",  # said of every one that was refused with a status
)


def _not_about_clients(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_CLIENTS)
