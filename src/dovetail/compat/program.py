"""Run somebody's program as Python would, with the families meaning ours, and serve what it makes.

Most programs serve themselves, in ``mcp.run()`` or deep inside ``asyncio.run(main())``; `serving` sees to it that our
command line wins. One that ends without having served is searched for a server, whatever it is called.
"""

from __future__ import annotations

import logging
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from msgspec import Struct

from ..errors import DovetailError
from ..server import Server
from . import absent, hook, serving
from .adapting import CHANGED
from .patches import replaced
from .serving import Command, Served

log = logging.getLogger("dovetail.compat")

INCOMPLETE: Final = 3
"""The exit status when a program wants what we do not have."""

_MACHINERY: Final = (f"dovetail{os.sep}compat", f"{os.sep}importlib{os.sep}")
"""Files whose frames say nothing about where a program asked for something."""


class Program(Struct, kw_only=True):
    """What to run."""

    file: str | None = None
    module: str | None = None
    name: str | None = None
    """The server that is meant, where a program has several: ``FILE:name``."""
    arguments: list[str] = []

    @property
    def title(self) -> str:
        return self.file or f"-m {self.module}"


class ProgramError(DovetailError):
    """The program cannot be run, or has nothing to serve; the message says what to do."""


def look(program: Program) -> list[absent.Missing]:
    """What the program wants and does not get, as far as reading it tells."""
    if program.file is not None:
        return absent.look(Path(program.file))
    module = program.module or ""
    path = absent.find_module(module)
    if path is None:
        found = entry_point(module)
        module = module if found is None else found.module
        path = absent.find_module(module)
    return [] if path is None else absent.look(path, module)


def run(program: Program, command: Command) -> int:
    """Run the program until it ends; gives the exit status, `INCOMPLETE` when something is missing.

    Raises:
        ProgramError: it cannot be run, or has nothing to serve.
    """
    finder = hook.install(CHANGED)
    lacking = look(program)
    if lacking:
        _tell(program, lacking)
        return INCOMPLETE
    command.check = lambda server: _refuse_half(program, server)
    serving.obey(command)
    try:
        names = _executed(program)
        if not command.served:
            log.info("gave %s", ", ".join(finder.given) or "nothing: the program imports neither family")
            serving.run(found(names, program))
    except ImportError as error:
        if error.name is None or not hook.is_theirs(error.name.removeprefix(hook.OURS)) or command.served:
            raise ProgramError(f"{program.title} cannot be run:\n{_trace(error)}") from None
        _tell(program, [_asked(error)])
        return INCOMPLETE
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def report(program: Program, write: Callable[[str], Any]) -> int:
    """Say what the program would be given and what would be missing; nothing of it is run.

    Raises:
        ProgramError: there is no such program, or it is no Python.
    """
    hook.install()
    _check(program)
    lacking = look(program)
    for one in lacking:
        write(f"{one}\n")
    names = len({one.name for one in lacking})
    write(
        f"{program.title}: {names} names are missing\n" if names else f"{program.title}: nothing is missing\n"
    )
    return INCOMPLETE if lacking else 0


def _check(program: Program) -> None:
    """Find out whether there is something to read, as running it would.

    Raises:
        ProgramError: there is not.
    """
    if program.file is not None:
        _compiled(program.file)
    elif absent.find_module(program.module or "") is None and entry_point(program.module or "") is None:
        raise ProgramError(f"there is neither a module {program.module} to run nor a command of that name")


def _refuse_half(program: Program, server: Server) -> None:
    """What reading the program did not show: private names of the originals that it has replaced by other means.

    Raises:
        SystemExit: there are some; few programs catch that, and many catch every `Exception`.
    """
    found = [_put(name, value) for name, value in replaced(server)]
    if found:
        _tell(program, found)
        raise SystemExit(INCOMPLETE)


def _put(name: str, value: Any) -> absent.Missing:
    """Something that a program has put under ``name``, and where it comes from, as far as that can be known."""
    code = getattr(getattr(value, "func", value), "__code__", None)
    if not isinstance(code, CodeType):
        return absent.Missing(name, program_file(), 0, f"{value!r:.80} is put there")
    return absent.Missing(name, code.co_filename, code.co_firstlineno, f"{code.co_qualname} is put there")


def program_file() -> str:
    """The file of the program that runs."""
    return str(vars(sys.modules["__main__"]).get("__file__") or "?")


def _tell(program: Program, lacking: list[absent.Missing]) -> None:
    words = "\n".join(str(one) for one in lacking)
    sys.stderr.write(f"{program.title} wants what Dovetail does not have; nothing was served.\n{words}\n")


def _asked(error: ImportError) -> absent.Missing:
    """What an import of the running program did not find, and where it stands."""
    module = (error.name or "").removeprefix(hook.OURS)
    last = str(error).partition("cannot import name '")[2].partition("'")[0]
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and not any(part in frame.filename for part in _MACHINERY)
    ]
    place = frames[-1] if frames else None
    return absent.Missing(
        f"{module}.{last}" if last else module,
        "?" if place is None else place.filename,
        0 if place is None else place.lineno or 0,
        "" if place is None else place.line or "",
    )


def _executed(program: Program) -> Mapping[str, Any]:
    """Run the program as ``__main__``; gives the names at its top level."""
    if program.file is not None:
        return _run_file(program.file, program.arguments)
    name = program.module or ""
    sys.path.insert(0, os.getcwd())
    if absent.find_module(name) is not None and _runnable(name):
        sys.argv = [name, *program.arguments]
        return runpy.run_module(name, run_name="__main__", alter_sys=True)
    found = entry_point(name)
    if found is None:
        raise ProgramError(f"there is neither a module {name} to run nor a command of that name")
    sys.argv = [found.name, *program.arguments]
    main = found.load()
    status = main()
    if status:
        raise SystemExit(status)
    return main.__globals__ if isinstance(main, FunctionType) else {}


def _runnable(name: str) -> bool:
    path = absent.find_module(name)
    return path is not None and path.name != "__init__.py"


class Entry(Struct):
    """A console command: a function in a module."""

    name: str
    module: str
    function: str

    def load(self) -> Callable[[], Any]:
        """Import it."""
        return attrgetter(self.function)(import_module(self.module))


def entry_point(name: str) -> Entry | None:
    """The console command of a package: the one with its name, or else its only one."""
    plain = name.replace("_", "-")
    for one in _own_commands(plain.replace("-", "_").replace(".", "_")):
        if one.name.replace("_", "-") == plain:
            return one
    # Most commands are named after their packages, and this reads what all of them have.
    from importlib.metadata import entry_points

    points = [Entry(one.name, one.module, one.attr) for one in entry_points(group="console_scripts")]
    named = [one for one in points if one.name.replace("_", "-") == plain]
    own = [one for one in points if one.module == name or one.module.startswith(f"{name}.")]
    if named or len(own) == 1:
        return (named or own)[0]
    return None


def _own_commands(distribution: str) -> Iterator[Entry]:
    """The console commands of the distribution with this name."""
    for place in sys.path:
        for file in Path(place or ".").glob(f"{distribution}-*.dist-info/entry_points.txt"):
            group = file.read_text("utf-8").partition("[console_scripts]")[2].partition("[")[0]
            for line in group.splitlines():
                name, is_set, where = (part.strip() for part in line.partition("="))
                module, colon, function = where.partition("[")[0].strip().partition(":")
                if is_set and colon:
                    yield Entry(name, module, function)


def _compiled(file: str) -> CodeType:
    path = os.path.abspath(file)
    if not os.path.isfile(path):
        raise ProgramError(f"there is no file {file}")
    with open(path, "rb") as source:
        try:
            return compile(source.read(), path, "exec")
        except (SyntaxError, ValueError) as error:
            raise ProgramError(f"{file} cannot be run: {error}") from None


def _run_file(file: str, arguments: list[str]) -> Mapping[str, Any]:
    path, code = os.path.abspath(file), _compiled(file)
    module = ModuleType("__main__")
    module.__file__ = path
    vars(module)["__builtins__"] = __builtins__
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(path))
    sys.modules["__main__"] = module
    exec(code, vars(module))
    return vars(module)


def found(names: Mapping[str, Any], program: Program) -> Server:
    """The one server among these names, or the one that is meant.

    Raises:
        ProgramError: there is none, or it is not clear which one is meant.
    """
    if program.name is not None:
        return _native(names.get(program.name), program)
    servers = {name: value for name, value in names.items() if isinstance(value, Served | Server)}
    different = {id(value): name for name, value in servers.items()}
    if not servers:
        raise ProgramError(
            f"{program.title} ended without serving, and has no server at its top level: start it as its own "
            "documentation says, with its arguments after --"
        )
    if len(different) > 1:
        choices = " or ".join(f"{program.file or program.module}:{name}" for name in different.values())
        raise ProgramError(f"there are {len(different)} servers in {program.title}: say {choices}")
    return _native(next(iter(servers.values())), program)


def _native(value: Any, program: Program) -> Server:
    if value is not None and not isinstance(value, Served | Server) and callable(value):
        value = value()  # a factory
    if isinstance(value, Served):
        return value.native
    if isinstance(value, Server):
        return value
    raise ProgramError(f"{program.name} in {program.title} is no server, nor a function that makes one")


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()
