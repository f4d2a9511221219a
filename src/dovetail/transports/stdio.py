"""Serve one client over stdin and stdout.

The two descriptors are taken away before anything else can use them (`divert`): the wire gets private copies,
descriptor 1 is pointed at stderr and descriptor 0 at the null device. From then on a print, a write in C code
or a child process cannot reach the wire, whatever it does. Where they are pipes, sockets or terminals, the
event loop reads and writes them itself; plain files and Windows get a thread.
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
from .stream import LineLink, Sink, Source
from .thread_io import FileSink, FileSource


class Wire:
    """The descriptors the client is on, out of reach of everybody else."""

    def __init__(self, source: int, sink: int) -> None:
        self.source = source
        self.sink = sink

    def private(self) -> tuple[int, int]:
        """Copies for one use: closing them leaves the wire as it is."""
        return _reopened(self.source, os.O_RDONLY), _reopened(self.sink, os.O_WRONLY)


_wire: Wire | None = None


def divert() -> Wire:
    """Take stdin and stdout away from this process, once; later calls return the same wire.

    What was printed but not yet flushed goes to stderr as well.
    """
    global _wire
    if _wire is None:
        wire = Wire(os.dup(0), os.dup(1))
        _point(1, 2, os.O_WRONLY)
        _point(0, None, os.O_RDONLY)
        _flush_late_prints()
        _wire = wire
    return _wire


def _point(descriptor: int, at: int | None, flags: int) -> None:
    """Make ``descriptor`` mean what ``at`` means, or the null device when there is none."""
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
            stdout.reconfigure(line_buffering=True)  # it is a log now
    except (AttributeError, OSError, ValueError):
        pass


def _reopened(descriptor: int, flags: int) -> int:
    """A descriptor for our own use. A terminal is opened anew, because the loop makes what it reads
    non-blocking, and stderr would share that."""
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
    """Whether both are the same socket, as inetd and systemd pass it. It must be read and written as one."""
    read, write = os.fstat(source), os.fstat(sink)
    return stat.S_ISSOCK(read.st_mode) and (read.st_dev, read.st_ino) == (write.st_dev, write.st_ino)


async def open_link(duplex: Duplex, source: int, sink: int) -> LineLink:
    """Connect ``duplex`` to two descriptors, which the link closes in the end."""
    if _one_socket(source, sink):
        from .tcp import SocketLink  # with all it knows of TLS and certificates, which no pipe needs

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


def _sink(link: LineLink, descriptor: int) -> Sink:
    return (PipeSink if _pollable(descriptor) else FileSink)(descriptor, link)


def _source(link: LineLink, descriptor: int) -> Source:
    return (PipeSource if _pollable(descriptor) else FileSource)(descriptor, link)


async def _starter(auth: Any) -> Principal | None:
    from ..auth.server.connection_auth import (
        environment_principal,  # a pipe without authentication pays nothing for it
    )

    return await environment_principal(auth)


_FOR_A_PERSON: Final = (
    "dovetail: this is an MCP server that waits for messages of a client on stdin. Press Ctrl-C to stop it; "
    "to look at it in a browser, run: dovetail inspect FILE"
)
"""Printed to stderr when a person starts the server in a terminal."""


async def serve(
    service: Service,
    *,
    wire: Wire | None = None,
    stop: main_loop.Stop | None = None,
    grace: float = GRACE_SECONDS,
) -> None:
    """Serve the client on ``wire`` (default: stdin and stdout) until it leaves or we are to stop."""
    wire = wire or divert()
    source, sink = wire.private()
    async with lifespan(service):
        principal = None if service.auth is None else await _starter(service.auth)
        duplex = accept(service, principal=principal, scope={"transport": "stdio"}, grace=grace)
        await open_link(duplex, source, sink)
        if os.isatty(wire.source):
            print_line(_FOR_A_PERSON)
        await main_loop.until_closed(duplex, stop)
    for descriptor in (wire.source, wire.sink):
        if _pollable(descriptor):
            os.set_blocking(descriptor, True)  # others may share the pipe and expect it so


def run(service: Service, **options: Any) -> int:
    """Serve over stdin and stdout until the client leaves; gives the exit status, 130 after a SIGINT."""
    wire = divert()

    async def main(stop: main_loop.Stop) -> None:
        await serve(service, wire=wire, stop=stop, **options)

    return main_loop.run(main, threads=service.limits.max_threads)
