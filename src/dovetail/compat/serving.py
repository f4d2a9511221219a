"""Where servers of others are put onto a wire: here the command line of ``dovetail run --compat`` wins.

Whatever such a program calls (``mcp.run(transport=…)``, ``run_stdio_async()``, a low-level ``Server.run`` between the
streams of ``stdio_server()``, ``uvicorn.run`` with an application of ours) ends in `run` or `serve`. Without a command
line the transport that it asked for is used; with one, that of the command line, whatever it asked for.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Final
from weakref import WeakSet

from msgspec import Struct, field

from ..errors import DovetailError
from ..server import Server

log = logging.getLogger("dovetail.compat")

HTTP: Final = {"http", "streamable-http", "sse", "ws"}
"""What others call the transports that one HTTP application of ours has."""


class Served(ABC):
    """What both families call a server: found under any name, and served by ours."""

    @property
    @abstractmethod
    def native(self) -> Server:
        """The server of ours that answers for it."""


class Command(Struct, kw_only=True, eq=False):
    """What the command line says about serving."""

    run: Callable[[Server], int]
    """Serve and be the process; gives the exit status."""
    serve: Callable[[Server], Awaitable[Any]]
    """Serve in an event loop that somebody else has started."""
    http: bool = False
    host: str = "127.0.0.1"
    port: int = 8000
    strict: bool = False
    """Be as strict as a server of ours, where theirs are not."""
    served: bool = False
    """Something has been served: the program asked for it itself."""
    check: Callable[[Server], None] = field(default=lambda _: None)
    """Called before anything is served; ends the process where the server would do only half of what is meant."""


_command: Command | None = None

prepared: Final[list[Callable[[], Server]]] = []
"""Give the servers for which the program has made an HTTP application that it may serve itself."""

unbound: Final[list[Any]] = []
"""HTTP transports of the program's that learn of their server when a client comes."""

servers: Final[WeakSet[Served]] = WeakSet()
"""All low-level servers of the program; one of FastMCP has one."""


def command() -> Command | None:
    """The command line that this process obeys; None when a program runs on its own."""
    return _command


def obey(given: Command | None) -> None:
    """Let this command line win from now on."""
    global _command
    _command = given


def of_application() -> Server | None:
    """The server that an HTTP application of the program's serves; None where it is an application without one.

    Raises:
        DovetailError: nobody knows which of several it is.
    """
    if prepared:
        return prepared[-1]()
    if not unbound or not servers:
        return None
    if len(servers) > 1:
        names = ", ".join(sorted(getattr(one, "name", "?") for one in servers))
        raise DovetailError(
            f"the program has an HTTP application and {len(servers)} servers ({names}), and only a client shows which "
            "one is meant: serve it with --http, or with the program's own option for stdio after --"
        )
    return next(iter(servers)).native


def strict() -> bool:
    """Whether the process is to be as strict as ours are by design: unknown arguments refused, errors masked."""
    return _command is not None and _command.strict


def run(server: Server, transport: str = "stdio", **options: Any) -> None:
    """Serve and be the process; ``options`` are those of the transport, and count without a command line only.

    Raises:
        SystemExit: with the status, when it is not 0.
    """
    if _command is None:
        server.run("http" if transport in HTTP else "stdio", **options)
        return
    begin(server, transport, _command)
    if status := _command.run(server):
        raise SystemExit(status)


async def serve(server: Server, transport: str = "stdio", **options: Any) -> None:
    """As `run`, in the event loop of the caller."""
    if _command is None:
        await server.serve("http" if transport in HTTP else "stdio", **options)
        return
    begin(server, transport, _command)
    from ..transports.running import collecting_rarely  # loaded by now, with the transport

    with collecting_rarely():
        await _command.serve(server)


def look_again(server: Server) -> None:
    """To be called when a lifespan has begun, which is code of the program's as well; nothing is answered by then.

    Raises:
        SystemExit: the server would do only half of what is meant.
    """
    if _command is not None:
        _command.check(server)


def begin(server: Server, transport: str, command: Command) -> None:
    """To be called before ``server`` is served: the program asked for it.

    Raises:
        SystemExit: it would do only half of what is meant.
    """
    command.check(server)
    command.served = True
    if (transport in HTTP) != command.http:
        given = "HTTP" if command.http else "stdio"
        log.info("the program asks for %s; the command line says %s, and wins", transport, given)
