"""Any ASGI application on a host inside this process: granian where it is installed, else uvicorn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

from .. import extras
from ..transports.http.host.places import Place
from .bounds import FLUSH_SECONDS


def load() -> None:
    """Import what `hosted` will need: before there is a loop that this would hold up."""
    if find_spec("granian") is not None:
        from granian.server import embed  # noqa: F401  # pyright: ignore[reportUnusedImport]

        from ..transports.http.host import granian_host  # noqa: F401  # pyright: ignore[reportUnusedImport]


@asynccontextmanager
async def hosted(app: Any, place: Place) -> AsyncGenerator[tuple[str, int]]:
    """Serve ``app`` for as long as this is entered; its address. Signals are left alone.

    Raises:
        DovetailError: the address is taken, or there is no host.
    """
    if find_spec("granian") is not None:
        host: Any = _Granian(app, place)
    elif find_spec("uvicorn") is not None:
        host = _Uvicorn(app, place)
    else:
        raise extras.missing("granian", "a page")
    serving = asyncio.ensure_future(host.serve())
    starting = asyncio.ensure_future(place.reachable(host.bound))
    try:
        await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        yield host.bound.getsockname()[:2]
    finally:
        starting.cancel()
        host.stop()
        await asyncio.wait({serving}, timeout=FLUSH_SECONDS)
        serving.cancel()
        host.bound.close()


class _Granian:
    def __init__(self, app: Any, place: Place) -> None:
        from granian.constants import HTTPModes, Interfaces
        from granian.log import LogLevels
        from granian.server.embed import Server

        from ..transports.http.host.granian_host import LOGGING

        self.bound = place.reserve()
        address, port = self.bound.getsockname()[:2]
        server: Any = Server(
            app, interface=Interfaces.ASGINL, address=address, port=port, http=HTTPModes.http1, websockets=False,
            log_level=LogLevels.error, log_dictconfig=LOGGING,
        )  # fmt: skip
        self.serve, self.stop = server.serve, server.stop


class _Uvicorn:
    def __init__(self, app: Any, place: Place) -> None:
        import uvicorn

        self.bound = place.listen()
        config = uvicorn.Config(
            app, lifespan="off", log_config=None, log_level="warning", access_log=False, ws="none",
            server_header=False, timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = _quiet(uvicorn.Server)(config)

    async def serve(self) -> None:
        await self._server.serve(sockets=[self.bound])

    def stop(self) -> None:
        self._server.should_exit = True


def _quiet(server: Any) -> Any:
    """A uvicorn that leaves signals to whoever serves the page."""
    from contextlib import nullcontext

    return type("Server", (server,), {"capture_signals": lambda self: nullcontext()})  # pyright: ignore[reportUnknownLambdaType]
