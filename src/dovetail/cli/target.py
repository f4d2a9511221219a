"""Find the Server that ``FILE[:name]`` means, for the commands that serve it."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from ..errors import DovetailError
from ..telemetry.terminal_sanitizer import log_to_stderr

if TYPE_CHECKING:
    from ..server import Server


class WrongCommandLine(DovetailError):
    """An option or a variable of ours cannot be meant: exit status 2."""

    status = 2


class TargetError(DovetailError):
    """There is no server to be found there; the message says what to do."""

    kind = "target"


def server_parser(command: str, description: str) -> argparse.ArgumentParser:
    """The options of every command that has a server of its own."""
    parser = argparse.ArgumentParser(prog=f"dovetail {command}", description=description)
    parser.add_argument(
        "target", metavar="FILE[:name]", help="a Python file or module, and the name of its Server"
    )
    add_common(parser)
    return parser


def add_common(parser: argparse.ArgumentParser) -> None:
    """The options of every command that serves, whatever it serves."""
    parser.add_argument(
        "--store", metavar="URL", help="where state is kept: FILE, sqlite:///FILE or redis://HOST:PORT/DB"
    )
    levels = ("debug", "info", "warning", "error")
    parser.add_argument("--log-level", default="info", choices=levels, help="what goes to stderr")


def server_of(options: argparse.Namespace) -> Server:
    """The server that the options of `server_parser` name."""
    prepare(options)
    # What the file sets up may use threads in every fork (OpenTelemetry's providers do), and whoever registers first
    # is called first: the locks that it takes there have to be made anew by then.
    importlib.import_module("concurrent.futures.thread")
    return load(options.target)


def prepare(options: argparse.Namespace) -> None:
    """What is logged goes to stderr from now on, and state to the store that is named.

    Raises:
        WrongCommandLine: there is no such store, or a key that seals is none.
    """
    log_to_stderr(options.log_level)
    store = options.store if options.store is not None else os.environ.get("DOVETAIL_STORE") or None
    try:  # here these mistakes are the command's, not the file's
        if store is not None:
            from ..stores.store_urls import from_url

            from_url(store)
        if os.environ.get("DOVETAIL_SEAL_KEYS"):
            from ..server.store_choice import environment_keys

            environment_keys()
    except (DovetailError, ValueError) as error:
        raise WrongCommandLine(str(error)) from None
    if store is not None:
        # In the environment: workers load the file again, each in a process of its own.
        os.environ["DOVETAIL_STORE"] = store


def split(target: str) -> tuple[str, str | None]:
    """Part ``FILE[:name]``; the colon of a Windows drive is not the one."""
    file, colon, name = target.rpartition(":")
    if colon and name.isidentifier() and not os.path.exists(target) and len(file) > 1:
        return file, name
    return target, None


def load(target: str) -> Server:
    """Import the file (or module) and return its one `Server`, or the one that is named.

    Raises:
        TargetError: nothing is there, it cannot be imported, or it is not clear which server is meant.
    """
    file, name = split(target)
    module = _load(file)
    return _choose(module, file) if name is None else _named(module, file, name)


def _load(file: str) -> ModuleType:
    looks_like_a_file = file.endswith(".py") or os.sep in file or os.path.exists(file)
    if looks_like_a_file and not os.path.isfile(file):
        raise TargetError(f"there is no file {file}")
    try:
        if looks_like_a_file:
            return _import_file(os.path.abspath(file))
        sys.path.insert(0, os.getcwd())  # as if it had been started with `python -m MODULE`
        return importlib.import_module(file)
    except ModuleNotFoundError as error:
        if error.name == file:
            raise TargetError(f"there is neither a file nor a module {file}") from None
        raise TargetError(f"{file} cannot be imported:\n{_trace(error)}") from None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise TargetError(f"{file} cannot be imported:\n{_trace(error)}") from None


def _import_file(path: str) -> ModuleType:
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules or name in sys.stdlib_module_names or not name.isidentifier():
        name = f"_dovetail_{abs(hash(path)):x}"  # never hide a module somebody else may want
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is not a Python file")
    sys.path.insert(0, os.path.dirname(path))  # as if it had been started with `python FILE`
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _trace(error: BaseException) -> str:
    """The author's own frames, without ours and those of the import system."""
    from ..telemetry.short_traceback import short_traceback

    return short_traceback(error)


def _choose(module: ModuleType, file: str) -> Server:
    from ..server import Server

    found = {name: value for name, value in vars(module).items() if isinstance(value, Server)}
    servers = list({id(value): value for value in found.values()}.values())
    if not servers:
        raise TargetError(f'there is no Server in {file}: write `server = Server("name")` at its top level')
    if len(servers) > 1:
        choices = " or ".join(f"{file}:{name}" for name in found)
        raise TargetError(f"there are {len(servers)} servers in {file}: say {choices}")
    return servers[0]


def _named(module: ModuleType, file: str, name: str) -> Server:
    from ..server import Server

    value = getattr(module, name, None)
    if value is not None and not isinstance(value, Server) and callable(value):
        value = value()  # a factory
    if not isinstance(value, Server):
        raise TargetError(f"{name} in {file} is not a Server, nor a function that makes one")
    return value
