"""The import hook: ``fastmcp…`` and ``mcp…`` mean our module trees in this process, installed or not.

A module of theirs is the module of ours under another name, the same object, so that a class is one class whichever
way it was imported. What is not there is noted with the place that asked for it, and raised as Python would.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from .serving import log

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    Loader = MetaPathFinder = object  # theirs bring along twenty modules, and nothing that is used here

FAMILIES: Final = ("fastmcp", "mcp")
OURS: Final = "dovetail.compat."


def ours(name: str) -> str:
    """The module of ours that a module of theirs means."""
    return OURS + name


def is_theirs(name: str) -> bool:
    """Whether a module belongs to one of the families."""
    return name.partition(".")[0] in FAMILIES


def exists(name: str) -> bool:
    """Whether we have a module for one of theirs."""
    try:
        return importlib.util.find_spec(ours(name)) is not None
    except ModuleNotFoundError:
        return False


class Alias(Loader):
    """Loads a module of theirs: the one of ours."""

    def __init__(self, name: str) -> None:
        self._module = importlib.import_module(ours(name))
        self._spec = self._module.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # its own again: relative imports go by it


class After(Loader):
    """Loads a module as it is, and has something done to it."""

    def __init__(self, inner: Any, then: Callable[[ModuleType], None]) -> None:
        self._inner = inner
        self._then = then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        self._then(module)


class Finder(MetaPathFinder):
    """Stands before all other finders; ``changed`` are modules of others that are adapted once they are loaded."""

    def __init__(self, changed: dict[str, Callable[[ModuleType], None]]) -> None:
        self.given: list[str] = []
        """The modules that were asked for and given, in order."""
        self._changed = changed

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname in self._changed:
            return self._adapted(fullname, path)
        if not is_theirs(fullname):
            return None
        if not exists(fullname):
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        self.given.append(fullname)
        loader = Alias(fullname)
        spec = importlib.machinery.ModuleSpec(fullname, loader)
        spec.submodule_search_locations = [] if "__path__" in vars(loader.create_module(spec)) else None
        return spec

    def _adapted(self, name: str, path: Sequence[str] | None) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = After(spec.loader, self._changed[name])
        return spec


def install(changed: dict[str, Callable[[ModuleType], None]] | None = None) -> Finder:
    """Let the families mean ours from now on, also where the originals were imported already."""
    for name in [name for name in sys.modules if is_theirs(name)]:
        del sys.modules[name]
    finder = Finder(changed or {})
    sys.meta_path.insert(0, finder)
    for family in FAMILIES:
        version = installed(family)
        if version is not None:
            log.info("%s %s is installed; in this process %s means %s", family, version, family, ours(family))
    return finder


def remove(finder: Finder) -> None:
    """Let them mean what they meant before."""
    sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if is_theirs(name)]:
        del sys.modules[name]


@cache
def installed(family: str) -> str | None:
    """The version of an original, None where it is not installed."""
    # The folder of its metadata is named after it; to load what reads metadata takes as long as all of a small server.
    begin, end = f"{family}-", ".dist-info"
    for place in sys.path:
        names = os.listdir(place or ".") if os.path.isdir(place or ".") else []
        for name in names:
            if name.startswith(begin) and name.endswith(end):
                return name[len(begin) : -len(end)]
    return None
