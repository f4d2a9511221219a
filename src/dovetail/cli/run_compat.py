"""``dovetail run`` for a program of FastMCP or the official SDK."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ..compat.command import run as run_program
from ..compat.find import Program, is_original
from ..compat.hosting import ServeOptions
from ..compat.versions import CompatError
from ..transports.bind_address import default_port
from . import target

_SERVED_BY_ASGI: Final = ("allowed_hosts", "allowed_origins", "stateless", "json_only", "metrics")


def run(options: argparse.Namespace, rest: list[str], http: dict[str, Any]) -> int | None:
    """Run the program; None if it uses neither FastMCP nor the official SDK.

    Raises:
        CompatError: the program cannot be served.
    """
    program = Program(module=options.module, arguments=rest)
    if options.target is not None:
        program.file, program.name = target.split(options.target)
    if not options.compat and not is_original(program):
        return None
    for unusable in ("ws", "reload"):
        if getattr(options, unusable):
            raise CompatError(f"--{unusable} is not supported for a server of FastMCP or the SDK")
    if options.client_ca:
        raise CompatError(
            "--client-ca: a server of FastMCP or the SDK cannot check client certificates; use a reverse proxy"
        )
    if options.workers > 1:
        raise CompatError("--workers: a server of FastMCP or the SDK runs in one process")
    target.prepare(options)
    port = default_port() if options.port is None else options.port
    serving = ServeOptions(transport="stdio", host=options.host or "127.0.0.1", port=port, uds=options.uds)
    serving.certfile, serving.keyfile = options.certfile, options.keyfile
    serving.allow_anonymous, serving.json = options.allow_anonymous, options.json
    serving.http = {name: http[name] for name in _SERVED_BY_ASGI if name in http}
    if options.http or options.sse:
        serving.transport = "sse" if options.sse else "http"
    elif options.unix:
        serving.transport, serving.path = "unix", options.unix
    elif options.tcp:
        from .run_command import address

        serving.transport = "tcp"
        serving.host, serving.port = address(options.tcp)
    return run_program(program, serving)
