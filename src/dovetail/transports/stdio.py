"""Serve one client over stdin and stdout.

`divert` moves both descriptors before other code can use them: the protocol gets private copies, descriptor 1
points to stderr and descriptor 0 to the null device. From then on a print, a write in C code or a child
process cannot corrupt the protocol. Pipes, sockets and terminals are read and written by the event loop;
plain files and Windows use threads.
"""

from __future__ import annotations

import asyncio
import io
import os
import socket
import stat
import sys
from typing import Any, Final

from ..core.channel import Service
from ..core.principal import Principal
from ..drivers.duplex import Duplex, accept, lifespan
from ..drivers.run import GRACE_SECONDS
from ..errors import TransportError
from . import main_loop
from .bind_address import print_line
from .pipes import PipeSink, PipeSource
from .stream import ByteSink, ByteSource, LineLink
from .thread_io import FileSink, FileSource


class StdioDescriptors:
    """The private descriptors of the client connection."""

    def __init__(self, source: int, sink: int) -> None:
        self.source = source
        self.sink = sink

    def private(self) -> tuple[int, int]:
        """Duplicate the descriptors; closing the copies leaves the originals open."""
        return _reopened(self.source, os.O_RDONLY), _reopened(self.sink, os.O_WRONLY)


_wire: StdioDescriptors | None = None


def divert() -> StdioDescriptors:
    """Move stdin and stdout away, once. Later calls return the same descriptors.

    Data that was printed but not flushed goes to stderr as well.
    """
    global _wire
    if _wire is None:
        wire = StdioDescriptors(os.dup(0), os.dup(1))
        _point(1, 2, os.O_WRONLY)
        _point(0, None, os.O_RDONLY)
        _flush_late_prints()
        _wire = wire
    return _wire


def _point(descriptor: int, at: int | None, flags: int) -> None:
    """Redirect ``descriptor`` to ``at``, or to the null device if that is None."""
    try:
        os.dup2(at if at is not None else -1, descriptor)
    except OSError:
        null = os.open(os.devnull, flags)
        os.dup2(null, descriptor)
        os.close(null)


def _flush_late_prints() -> None:
    try:
        stdout: object = sys.stdout
        sys.stdout.flush()
        if isinstance(stdout, io.TextIOWrapper):
            stdout.reconfigure(line_buffering=True)  # it serves as a log now
    except (AttributeError, OSError, ValueError):
        pass


def _reopened(descriptor: int, flags: int) -> int:
    """Return a private descriptor.

    A terminal is reopened, because the loop makes its descriptors non-blocking, and stderr would share that.
    """
    if os.name == "posix" and os.isatty(descriptor):
        try:
            return os.open(os.ttyname(descriptor), flags | os.O_NOCTTY)
        except OSError:
            pass
    return os.dup(descriptor)


def _pollable(descriptor: int) -> bool:
    if os.name != "posix":
        return False
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


def _one_socket(source: int, sink: int) -> bool:
    """Whether both are the same socket, as inetd and systemd pass it. One socket link must handle it."""
    read, write = os.fstat(source), os.fstat(sink)
    return stat.S_ISSOCK(read.st_mode) and (read.st_dev, read.st_ino) == (write.st_dev, write.st_ino)


async def open_link(duplex: Duplex, source: int, sink: int) -> LineLink:
    """Connect ``duplex`` to two descriptors. The link closes them at its end."""
    if _one_socket(source, sink):
        from .tcp import SocketLink  # imported on demand: it loads TLS, which pipes do not need

        os.close(sink)
        link = SocketLink(duplex, duplex.limits, recover=True)
        connection = socket.socket(fileno=source)
        await asyncio.get_running_loop().create_connection(lambda: link, sock=connection)
        return link
    link = LineLink(duplex, duplex.limits, recover=True)
    try:
        writing = _sink(link, sink)
        reading = _source(link, source)
    except OSError as error:
        raise TransportError(f"stdin or stdout cannot be used: {error}", cause="refused") from None
    link.attach(reading, writing)
    reading.resume_reading()
    return link


def _sink(link: LineLink, descriptor: int) -> ByteSink:
    return (PipeSink if _pollable(descriptor) else FileSink)(descriptor, link)


def _source(link: LineLink, descriptor: int) -> ByteSource:
    return (PipeSource if _pollable(descriptor) else FileSource)(descriptor, link)


async def _environment_principal(auth: Any) -> Principal | None:
    from ..auth.server.connection_auth import (
        environment_principal,  # imported only with authentication
    )

    return await environment_principal(auth)


_FOR_A_PERSON: Final = (
    "dovetail: this is an MCP server that waits for messages of a client on stdin. Press Ctrl-C to stop it; "
    "to inspect it in a browser, run: dovetail inspect FILE"
)
"""Printed to stderr when a person starts the server in a terminal."""


async def serve(
    service: Service,
    *,
    wire: StdioDescriptors | None = None,
    stop: main_loop.Stop | None = None,
    grace: float = GRACE_SECONDS,
) -> None:
    """Serve the client on ``wire`` (default: stdin and stdout) until it disconnects or a stop is requested."""
    wire = wire or divert()
    source, sink = wire.private()
    async with lifespan(service):
        principal = None if service.auth is None else await _environment_principal(service.auth)
        duplex = accept(service, principal=principal, scope={"transport": "stdio"}, grace=grace)
        await open_link(duplex, source, sink)
        if os.isatty(wire.source):
            print_line(_FOR_A_PERSON)
        await main_loop.until_closed(duplex, stop)
    for descriptor in (wire.source, wire.sink):
        if _pollable(descriptor):
            os.set_blocking(descriptor, True)  # other processes may share the pipe and expect blocking mode


def run(service: Service, **options: Any) -> int:
    """Serve over stdin and stdout until the client disconnects. Returns the exit status, 130 after SIGINT."""
    wire = divert()

    async def main(stop: main_loop.Stop) -> None:
        await serve(service, wire=wire, stop=stop, **options)

    return main_loop.run(main, threads=service.limits.max_threads)
