"""Find the server in a program: recognise whose library it uses, run it as Python would, or look through its names."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import runpy
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from msgspec import Struct

from ..imported_packages import ORIGINALS, imported_packages
from ..server import Server
from .versions import CompatError, InstalledOriginals, load

_OWN: Final = "dovetail"


class Program(Struct, kw_only=True):
    """What to run: a Python file, or a module or console command as ``-m`` names it."""

    file: str | None = None
    module: str | None = None
    name: str | None = None
    """The name of the server, of ``FILE:name``."""
    arguments: list[str] = []

    @property
    def title(self) -> str:
        return self.file or f"-m {self.module}"


def imports(program: Program) -> frozenset[str]:
    """The top-level packages that the program imports itself, according to its import statements."""
    return frozenset[str]().union(*map(imported_packages, _sources(program)))


def is_original(program: Program) -> bool:
    """Whether the program uses an original library, and not Dovetail's own names."""
    found = imports(program)
    return bool(found & ORIGINALS) and _OWN not in found


def _sources(program: Program) -> Iterator[Path]:
    if program.file is not None:
        yield Path(program.file)
        return
    spec = _spec(program.module or "")
    if spec is None:
        point = _entry_point(program.module or "")
        spec = None if point is None else _spec(point.module)
    if spec is None or spec.origin is None:
        return
    origin = Path(spec.origin)
    yield from sorted(origin.parent.glob("*.py")) if spec.submodule_search_locations else (origin,)


def _spec(module: str) -> importlib.machinery.ModuleSpec | None:
    """The spec of a module. Only its parent packages are imported."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    try:
        return importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None


def _entry_point(name: str) -> importlib.metadata.EntryPoint | None:
    """The console command of an installed package: the one with its name, or its only one."""
    plain = name.replace("_", "-")
    points = tuple(importlib.metadata.entry_points(group="console_scripts"))
    named = [one for one in points if one.name.replace("_", "-") == plain]
    own = [one for one in points if one.module.partition(".")[0] == name]
    return next(iter(named or (own if len(own) == 1 else [])), None)


def execute(program: Program) -> Mapping[str, Any]:
    """Run the program as ``__main__``; returns the names at its top level.

    Raises:
        CompatError: the program does not exist.
    """
    if program.file is not None:
        return _execute_file(program.file, program.arguments)
    name = program.module or ""
    spec = _spec(name)
    package = spec is not None and spec.submodule_search_locations is not None
    if spec is not None and (not package or _spec(f"{name}.__main__") is not None):
        sys.argv = [name, *program.arguments]
        return runpy.run_module(name, run_name="__main__", alter_sys=True)
    point = _entry_point(name)
    if point is None:
        raise CompatError(
            f"there is neither a module {name} that can be run nor a console command of that name"
        )
    sys.argv = [point.name, *program.arguments]
    main = point.load()
    status = main()
    if status:
        raise SystemExit(status)
    return getattr(main, "__globals__", {})


def _execute_file(file: str, arguments: list[str]) -> Mapping[str, Any]:
    path = os.path.abspath(file)
    module = ModuleType("__main__")
    module.__file__ = path
    vars(module)["__builtins__"] = __builtins__
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(path))
    sys.modules["__main__"] = module
    exec(_compiled(file), vars(module))
    return vars(module)


def _compiled(file: str) -> Any:
    path = os.path.abspath(file)
    if not os.path.isfile(path):
        raise CompatError(f"there is no file {file}")
    try:
        # Not with the __future__ imports of this module.
        return compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise CompatError(f"{file} is not valid Python: {error}") from None


def imported(program: Program) -> Mapping[str, Any]:
    """Import the program under its own module name, as the library's command does for ``FILE:name``."""
    if program.file is None:
        return vars(importlib.import_module(program.module or ""))
    path = os.path.abspath(program.file)
    code = _compiled(program.file)
    module = ModuleType(Path(path).stem)
    module.__file__ = path
    sys.argv = [path, *program.arguments]
    sys.path.insert(0, os.path.dirname(path))
    sys.modules.setdefault(module.__name__, module)
    exec(code, vars(module))
    return vars(module)


def server_in(names: Mapping[str, Any], program: Program, found: InstalledOriginals) -> Any:
    """The only server among these names, or the one that the command line names.

    Raises:
        CompatError: the program has no server, or several.
    """
    kinds = classes(found)
    if program.name is not None:
        value: Any = names.get(program.name)
        if value is not None and not isinstance(value, kinds) and callable(value):
            value = value()  # a factory
        if not isinstance(value, kinds):
            raise CompatError(
                f"{program.name} in {program.title} is neither a server nor a function that makes one"
            )
        return value
    servers = {name: value for name, value in names.items() if isinstance(value, kinds)}
    different = {id(value): name for name, value in servers.items()}
    if not servers:
        raise CompatError(
            f"{program.title} ended without starting a server, and none of its top-level names is one; "
            "if it needs arguments, give them after --"
        )
    if len(different) > 1:
        choices = " or ".join(f"{program.file or program.module}:{name}" for name in different.values())
        raise CompatError(f"{program.title} has {len(different)} servers; choose one: {choices}")
    return next(iter(servers.values()))


def classes(found: InstalledOriginals) -> tuple[type[Any], ...]:
    """The classes of servers, high-level and low-level."""
    names = (name for row in found.originals for name in (*(one.name for one in row.servers), *row.low_level))
    return (Server, *map(load, names))
