"""``stdio_server()``: the two ends of stdin and stdout, for a low-level `Server.run` between them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from ....server import Server
from ....transports.stdio import divert
from ... import serving


class StdioStream:
    """Stands for stdin or stdout: whoever runs a server on it has it served there, or where the command line says."""

    async def serve(self, server: Server) -> None:
        """Serve ``server`` until the client leaves."""
        await serving.serve(server)

    def __aiter__(self) -> Any:
        raise TypeError("stdio_server() yields no messages here: give both streams to a Server's run()")

    async def send(self, message: Any) -> None:
        raise TypeError("stdio_server() takes no messages here: give both streams to a Server's run()")


@asynccontextmanager
async def stdio_server(
    stdin: Any = None, stdout: Any = None
) -> AsyncGenerator[tuple[StdioStream, StdioStream], None]:
    """Take stdin and stdout away from everybody else, and serve on them."""
    command = serving.command()
    if command is None or not command.http:
        divert()
    yield StdioStream(), StdioStream()
