"""``dovetail run --compat``: serve a program written for FastMCP 2/3 or SDK 1.x, unmodified."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec import Struct

from ..server import Server
from . import program
from .serving import Command

FLAG: Final = "--compat"
COLUMNS: Final = 98
"""How wide the help is."""


class Ways(Struct, frozen=True):
    """What ``dovetail run`` can do, for whoever has a program to serve."""

    adds: tuple[Callable[[argparse.ArgumentParser], None], ...]
    """Add the options of every command that serves."""
    read: Callable[[argparse.ArgumentParser, list[str]], argparse.Namespace]
    """What the command line, the environment and a ``.env`` say."""
    prepares: tuple[Callable[[argparse.Namespace], None], ...]
    """To be done before any code of others is imported."""
    split: Callable[[str], tuple[str, str | None]]
    serve: Callable[[Server, argparse.Namespace], int]
    http_options: Callable[[argparse.Namespace], dict[str, Any]]
    address: Callable[[str], tuple[str, int]]


def parser(ways: Ways) -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="dovetail run --compat",
        usage="dovetail run --compat[=report] (FILE[:name] | -m PACKAGE) [OPTIONS] [-- ARGUMENTS]",
        description="Serve a program written for FastMCP 2/3 or SDK 1.x, unmodified. It runs as it would with Python, "
        "with the ARGUMENTS; the transport of this command line wins over the program's own.",
        # To measure the terminal takes ten modules more, and is done for every option.
        formatter_class=partial(argparse.HelpFormatter, width=COLUMNS),
    )
    result.add_argument("target", nargs="?", metavar="FILE[:name]", help="the program, and its server's name")
    result.add_argument(
        "-m", dest="module", metavar="PACKAGE", help="a package, or its command, as the program"
    )
    result.add_argument(FLAG, choices=("run", "report"), help="report: only say what would be missing")
    result.add_argument(
        "--strict", action="store_true", help="refuse unknown arguments and mask errors, as our servers do"
    )
    for add in ways.adds:
        add(result)
    return result


def main(arguments: list[str], ways: Ways) -> int:
    """Run the command; ``dovetail run`` hands over to it when the flag is there."""
    given, own = _divided(arguments)
    line = parser(ways)
    options = ways.read(line, [f"{FLAG}=run" if word == FLAG else word for word in given])
    if (options.target is None) == (options.module is None):
        line.error("name a FILE, or a package with -m")
    if options.workers > 1:
        line.error("a program of others is one process: --workers has to be 1")
    for prepare in ways.prepares:
        prepare(options)
    file, name = (None, None) if options.target is None else ways.split(options.target)
    what = program.Program(file=file, module=options.module, name=name, arguments=own)
    if options.compat == "report":
        return program.report(what, sys.stderr.write)
    return program.run(what, _command(options, ways))


def _divided(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What is meant for us, and what comes after ``--`` for the program."""
    place = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:place], arguments[place + 1 :]


def _command(options: argparse.Namespace, ways: Ways) -> Command:
    http = bool(options.http or options.sse or options.ws)

    async def serve(server: Server) -> None:
        if http:
            await server.serve("http", **ways.http_options(options))
        elif options.unix:
            await server.serve("tcp", host=None, port=None, path=options.unix)
        elif options.tcp:
            host, port = ways.address(options.tcp)
            await server.serve("tcp", host=host, port=port, allow_remote=options.allow_remote)
        else:
            await server.serve("stdio")

    return Command(
        run=lambda server: ways.serve(server, options),
        serve=serve,
        http=http,
        host=options.host,
        port=options.port,
        strict=options.strict,
    )
