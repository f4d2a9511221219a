"""Modules of others that are adapted when a program imports them: an HTTP server that it starts itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, Final

from . import serving


def uvicorn(module: ModuleType) -> None:
    """``uvicorn.run(app)``, ``uvicorn.Server(config).serve()``: at the address of our command line, or over stdio."""
    config: Any = vars(module)["Config"]
    server: Any = vars(module)["Server"]
    begin, serve = config.__init__, server.serve

    @wraps(begin)
    def configured(self: Any, app: Any, *args: Any, **options: Any) -> None:
        command = serving.command()
        if command is not None and command.http:
            args = ()  # host and port are the first of them
            options |= {"host": command.host, "port": command.port}
        begin(self, app, *args, **options)

    @wraps(serve)
    async def served(self: Any, *args: Any, **options: Any) -> None:
        command = serving.command()
        if command is not None and not command.http:
            server = serving.of_application()
            if server is not None:
                await serving.serve(server, "streamable-http")
                return
        if command is not None and serving.prepared:
            serving.begin(serving.prepared[-1](), "streamable-http", command)
        await serve(self, *args, **options)

    def run(self: Any, *args: Any, **options: Any) -> None:
        asyncio.run(self.serve(*args, **options))

    config.__init__, server.serve, server.run = configured, served, run


CHANGED: Final[dict[str, Callable[[ModuleType], None]]] = {"uvicorn": uvicorn}
