"""Find the Server that ``FILE[:name]`` means, for the commands that serve it."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from ..command_parser import CommandParser
from ..errors import DovetailError
from ..telemetry.terminal_sanitizer import log_to_stderr

if TYPE_CHECKING:
    from ..server import Server


class WrongCommandLine(DovetailError):
    """An option or a ``DOVETAIL_…`` variable has a wrong value: exit status 2."""

    status = 2


class TargetError(DovetailError):
    """The target contains no usable server; the message says what to do."""

    kind = "target"


def server_parser(command: str, description: str) -> argparse.ArgumentParser:
    """Return a parser with the options of every command that loads a server."""
    parser = CommandParser(command, description)
    parser.add_argument(
        "target",
        metavar="FILE[:name]",
        help="a Python file or module, and the name of its Server if it has several",
    )
    add_common(parser)
    return parser


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that serves."""
    parser.add_argument(
        "--store", metavar="URL", help="where to store state: FILE, sqlite:///FILE or redis://HOST:PORT/DB"
    )
    levels = ("debug", "info", "warning", "error")
    parser.add_argument(
        "--log-level",
        default="info",
        choices=levels,
        help="the lowest level of log messages on stderr (default: info)",
    )


def server_of(options: argparse.Namespace) -> Server:
    """Load the server that the options of `server_parser` name."""
    prepare(options)
    # The file may register fork hooks that use threads (OpenTelemetry does). Hooks run in the order of registration,
    # so those of this module, which recreate its locks, must be registered first.
    importlib.import_module("concurrent.futures.thread")
    return load(options.target)


def prepare(options: argparse.Namespace) -> None:
    """Send log messages to stderr, and put the store of the options into the environment.

    Raises:
        WrongCommandLine: the URL of the store, or a seal key, is not valid.
    """
    log_to_stderr(options.log_level)
    store = options.store if options.store is not None else os.environ.get("DOVETAIL_STORE") or None
    try:  # report these as mistakes of the command line, not of the file
        if store is not None:
            from ..stores.store_urls import from_url

            from_url(store)
        if os.environ.get("DOVETAIL_SEAL_KEYS"):
            from ..server.store_choice import environment_keys

            environment_keys()
    except (DovetailError, ValueError) as error:
        raise WrongCommandLine(str(error)) from None
    if store is not None:
        # In the environment, because each worker process loads the file again.
        os.environ["DOVETAIL_STORE"] = store


def split(target: str) -> tuple[str, str | None]:
    """Split ``FILE[:name]``, but not at the colon of a Windows drive."""
    file, colon, name = target.rpartition(":")
    if colon and name.isidentifier() and not os.path.exists(target) and len(file) > 1:
        return file, name
    return target, None


def load(target: str) -> Server:
    """Import the file or module and return its only `Server`, or the named one.

    Raises:
        TargetError: it does not exist, cannot be imported, or has several servers and no name was given.
    """
    file, name = split(target)
    module = _load(file)
    return _choose(module, file) if name is None else _named(module, file, name)


def _load(file: str) -> ModuleType:
    looks_like_a_file = file.endswith(".py") or os.sep in file or os.path.exists(file)
    if looks_like_a_file and not os.path.isfile(file):
        raise TargetError(f"{file} does not exist")
    try:
        if looks_like_a_file:
            return _import_file(os.path.abspath(file))
        sys.path.insert(0, os.getcwd())  # as `python -m MODULE` does
        return importlib.import_module(file)
    except ModuleNotFoundError as error:
        if error.name == file:
            raise TargetError(f"there is no file and no module {file!r}") from None
        raise TargetError(f"{file} cannot be imported:\n{_trace(error)}") from None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise TargetError(f"{file} cannot be imported:\n{_trace(error)}") from None


def _import_file(path: str) -> ModuleType:
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules or name in sys.stdlib_module_names or not name.isidentifier():
        name = f"_dovetail_{abs(hash(path)):x}"  # do not hide another module
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is not a Python file")
    sys.path.insert(0, os.path.dirname(path))  # as `python FILE` does
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _trace(error: BaseException) -> str:
    """Return the traceback without the frames of Dovetail and of the import system."""
    from ..telemetry.short_traceback import short_traceback

    if isinstance(error, DovetailError):
        error.__cause__ = None  # its message contains the cause
    return short_traceback(error)


def _choose(module: ModuleType, file: str) -> Server:
    from ..server import Server

    found = {name: value for name, value in vars(module).items() if isinstance(value, Server)}
    servers = list({id(value): value for value in found.values()}.values())
    if not servers:
        raise TargetError(f'{file} has no Server: write `server = Server("name")` at the top level')
    if len(servers) > 1:
        choices = " or ".join(f"{file}:{name}" for name in found)
        raise TargetError(f"{file} has {len(servers)} servers: choose one with {choices}")
    return servers[0]


def _named(module: ModuleType, file: str, name: str) -> Server:
    from ..server import Server

    value = getattr(module, name, None)
    if value is not None and not isinstance(value, Server) and callable(value):
        value = value()  # a factory
    if not isinstance(value, Server):
        from difflib import get_close_matches

        close = get_close_matches(
            name, [one for one, found in vars(module).items() if isinstance(found, Server)], 1
        )
        meant = f". Did you mean {file}:{close[0]}?" if close else ""
        raise TargetError(f"{name} in {file} is not a Server and not a function that returns one{meant}")
    return value
