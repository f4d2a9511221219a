"""``dovetail run`` for programs of FastMCP and the official SDK."""

from __future__ import annotations

import asyncio
import sys
import traceback
from typing import Any

from ..errors import DovetailError
from ..imported_packages import ORIGINALS
from ..server import Server
from .find import Program, execute, imported, imports, server_in
from .hosting import Host, ServeOptions
from .intercept import Interception
from .versions import CompatError, InstalledOriginals, installed, is_installed, not_installed


def run(program: Program, options: ServeOptions) -> int:
    """Run the program and serve the server that it starts; returns the exit status.

    Raises:
        CompatError: it cannot be served.
    """
    host = Host(options)
    host.check()
    interception = Interception(_used(program), host)
    with interception.installed():
        try:
            _run(program, interception)
        except SystemExit as end:
            _ended(program, interception, end)
            if interception.served:
                return _status(end)
        except KeyboardInterrupt:
            if not interception.served:
                raise
            return 130
        except DovetailError:
            raise
        except BaseException as error:  # noqa: BLE001  perhaps an exception group of the program
            if interception.failure is not None:
                raise interception.failure from None
            if interception.served:
                traceback.print_exception(error)
                return 1
            raise _failed(program, error) from None
    if interception.failure is not None:
        raise interception.failure
    return host.status


def _used(program: Program) -> InstalledOriginals:
    """The installed originals that the program imports; all installed ones if it imports none itself.

    Raises:
        CompatError: none is installed.
    """
    used = imports(program) & ORIGINALS
    there = {
        package
        for package in (used if used and program.module is None else ORIGINALS)
        if is_installed(package)
    }
    return installed(there or used or {"mcp"}, program.title)


def _run(program: Program, interception: Interception) -> None:
    names = execute(program) if program.name is None else imported(program)
    if interception.served or interception.failure is not None:
        return
    server = server_in(names, program, interception.found)
    if isinstance(server, Server):
        raise CompatError(f"{program.title} has a server of Dovetail: run it without --compat")
    if not hasattr(server, "run_stdio_async"):
        asyncio.run(_low_level(server))
    else:
        server.run()


async def _low_level(server: Any) -> None:
    """Serve a low-level server that the program did not start."""
    from .versions import STDIO, load

    async with load(STDIO)() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _ended(program: Program, interception: Interception, end: SystemExit) -> None:
    if interception.failure is not None:
        raise interception.failure from None
    if not interception.served:
        raise CompatError(
            f"{program.title} called sys.exit({end.code!r}) before it started a server; "
            "if it needs arguments, give them after --"
        ) from None


def _status(end: SystemExit) -> int:
    return end.code if isinstance(end.code, int) else int(end.code is not None)


def _failed(program: Program, error: BaseException) -> CompatError:
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] in ORIGINALS:
        package = error.name.partition(".")[0]
        if not is_installed(package):
            return not_installed(package, program.title)
    traceback.print_exception(error, file=sys.stderr)
    return CompatError(f"{program.title} failed before it started a server: {type(error).__name__}: {error}")
