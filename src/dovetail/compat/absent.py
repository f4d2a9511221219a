"""What a program wants of the families and we do not have: found by reading it, before anything of it runs.

The files of the program are read with `ast`, from the first one along its own imports. Names that are imported where
their absence is expected (``try … except ImportError``, ``if TYPE_CHECKING``) do not count.
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from msgspec import Struct

from .hook import FAMILIES, exists, is_theirs, ours
from .patches import patches

_SESSION: Final = (
    "register handlers on mcp.server.lowlevel.Server and call its run(read_stream, write_stream, …)"
)
NOT_MADE: Final = ("mcp.ServerSession", "mcp.server.session.ServerSession", "mcp.shared.session.BaseSession")
"""Classes whose names are there, but which a program cannot make itself."""
ADVICE: Final = {
    "mcp.shared.experimental.tasks.": (
        "tasks are kept by ours: call enable_tasks() without a store; with DOVETAIL_STORE they outlive the process"
    ),
    "mcp.server.experimental.": "a handler has ctx.experimental.run_task(work), whose questions and end are ours",
    **{f"{name}(": _SESSION for name in NOT_MADE},
}
"""What to do about names that begin so."""
_FAMILIES: Final = re.compile(rf"\b(?:{'|'.join(FAMILIES)})\b")
_INDENTED: Final = re.compile(r"^[ \t]+(?:from|import)\b", re.MULTILINE)
"""An import that may be expected to fail, or not to happen."""
_IMPORTS: Final = re.compile(
    r"^(?:from\s+[\w.]+\s+import\s*(?:\([^)]*\)|(?:[^\\\n]|\\\n)*)|import\s(?:[^\\\n]|\\\n)*)", re.MULTILINE
)
MOST_FILES: Final = 2000
"""Files of a program that are read. What lies beyond is found when it is imported."""


class Missing(Struct, frozen=True):
    """One name that we do not have."""

    name: str
    file: str
    line: int
    use: str
    """The line of the program that uses it first."""

    def __str__(self) -> str:
        words = f"{self.file}:{self.line}: {self.name} is not there"
        if self.use:
            words += f"; it is used for: {self.use}"
        return words + f"\n    {suggestion(self.name)}"


class Source(Struct):
    """One file of the program."""

    path: Path
    module: str | None
    """Its dotted name, where it has one."""


def suggestion(name: str) -> str:
    """What to do about a missing name."""
    module, _, last = name.rpartition(".")
    if last.startswith("_"):
        return (
            "it is a private name of the original, and nothing here would call what is put there: use a handler, "
            "middleware or a layer (docs/migrate.md), or run the program with its original library"
        )
    for begin, words in ADVICE.items():
        if name.startswith(begin):
            return words
    elsewhere = [place for place, names in _all_names().items() if last in names]
    if elsewhere:
        # Its own family first, and there what lies nearest to the top.
        family = name.partition(".")[0] + "."
        place = min(elsewhere, key=lambda place: (not place.startswith(family), place.count("."), place))
        return f"the same name is in {place}: import it from there"
    from difflib import get_close_matches  # only where there is something to suggest

    near = get_close_matches(last, _names(module), n=2) if exists(module) else []
    if near:
        return f"{module} has {' and '.join(near)}"
    return "write that part for Dovetail (docs/migrate.md), or run the program with its original library"


def look(path: Path, module: str | None = None) -> list[Missing]:
    """All that the program that begins with this file wants and does not get."""
    lacking: list[Missing] = []
    seen: set[Path] = set()
    waiting = [Source(path.resolve(), module)]
    while waiting and len(seen) < MOST_FILES:
        source = waiting.pop()
        if source.path in seen:
            continue
        seen.add(source.path)
        try:
            text = source.path.read_text(encoding="utf-8")
            tree = parsed(text)
        except (OSError, SyntaxError, ValueError):
            continue  # Python says so itself, when it comes there
        reading = Reading(source, text.splitlines())
        reading.read(tree)
        lacking += reading.missing
        waiting += reading.followed
    return sorted(set(lacking), key=lambda one: (one.file, one.line, one.name))


def parsed(text: str) -> ast.Module:
    """A file as a tree; of one that has nothing of the families in it, the imports alone.

    Raises:
        SyntaxError: it is no Python.
    """
    if not _FAMILIES.search(text) and not _INDENTED.search(text):
        try:
            return ast.parse("\n".join(_IMPORTS.findall(text)))
        except SyntaxError:
            pass  # a line of some text begins like an import
    return ast.parse(text)


class Reading:
    """The imports of one file."""

    def __init__(self, source: Source, lines: list[str]) -> None:
        self._source = source
        self._lines = lines
        self._tree: ast.AST
        self._modules: dict[str, str] = {}
        """Names in the file that mean modules of the families."""
        self._names: dict[str, str] = {}
        """Names in the file that mean something in one of those."""
        self.missing: list[Missing] = []
        self.followed: list[Source] = []

    def read(self, tree: ast.AST) -> None:
        """Read the whole file."""
        self._tree = tree
        for node in _counted(_statements(tree)):
            if isinstance(node, ast.Import):
                self._import(node)
            else:
                self._import_from(node)
        nodes = list(ast.walk(tree)) if self._modules or self._names else []
        for node in nodes:
            if isinstance(node, ast.Attribute):
                self._attribute(node)
            elif isinstance(node, ast.Call) and (name := self._named(node.func)) in NOT_MADE:
                self._use(f"{name}(read_stream, write_stream, …)", node.lineno)
        for name, line in patches(nodes, self._named, found):
            self._use(name, line)

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            if not is_theirs(alias.name):
                self._follow(alias.name)
            elif not exists(alias.name):
                self._miss(alias.name, node, (alias.asname or alias.name).partition(".")[0])
            else:
                bound = alias.asname or alias.name.partition(".")[0]
                self._modules[bound] = alias.name if alias.asname else bound

    def _import_from(self, node: ast.ImportFrom) -> None:
        base = self._base(node)
        if base is None:
            return
        if not is_theirs(base):
            self._follow(base)
            for alias in node.names:
                self._follow(f"{base}.{alias.name}")
            return
        for alias in node.names:
            name = f"{base}.{alias.name}"
            if alias.name == "*":
                continue
            if exists(base) and _has(base, alias.name):
                is_module = isinstance(getattr(importlib.import_module(ours(base)), alias.name), ModuleType)
                (self._modules if is_module else self._names)[alias.asname or alias.name] = name
            elif exists(name):
                self._modules[alias.asname or alias.name] = name
            else:
                self._miss(name, node, alias.asname or alias.name)

    def _base(self, node: ast.ImportFrom) -> str | None:
        if not node.level:
            return node.module
        if self._source.module is None:
            return None
        parts = self._source.module.split(".")
        if self._source.path.name != "__init__.py":
            parts = parts[:-1]
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, *filter(None, [node.module])]) or None

    def _attribute(self, node: ast.Attribute) -> None:
        """``types.X`` where ``types`` is a module of theirs."""
        module = self._module(node.value)
        if module is not None and exists(module) and not _has(module, node.attr):
            name = f"{module}.{node.attr}"
            if not exists(name):
                self._use(name, node.lineno)

    def _module(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            return self._modules.get(node.id)
        if isinstance(node, ast.Attribute):
            above = self._module(node.value)
            return f"{above}.{node.attr}" if above is not None and exists(f"{above}.{node.attr}") else None
        return None

    def _named(self, node: ast.expr) -> str | None:
        """The dotted name of an expression that means a module of theirs, or something in one."""
        if isinstance(node, ast.Name) and node.id in self._names:
            return self._names[node.id]
        module = self._module(node)
        if module is not None or not isinstance(node, ast.Attribute):
            return module
        above = self._module(node.value)
        return None if above is None or not _has(above, node.attr) else f"{above}.{node.attr}"

    def _use(self, name: str, line: int) -> None:
        self.missing.append(Missing(name, str(self._source.path), line, self._line(line)))

    def _miss(self, name: str, node: ast.stmt, bound: str) -> None:
        uses = (one.lineno for one in ast.walk(self._tree) if isinstance(one, ast.Name) and one.id == bound)
        use = min(uses, default=0)
        self.missing.append(Missing(name, str(self._source.path), node.lineno, self._line(use)))

    def _line(self, number: int) -> str:
        return self._lines[number - 1].strip() if 0 < number <= len(self._lines) else ""

    def _follow(self, name: str) -> None:
        """Read a module too, if it is one of the program's own: of its package, or beside its file."""
        top = name.partition(".")[0]
        if self._source.module is not None and top != self._source.module.partition(".")[0]:
            return
        path = _beside(self._source, name) if self._source.module is None else _of_package(name)
        if path is not None:
            own = name if self._source.module is not None else None
            self.followed.append(Source(path, own))


def _beside(source: Source, name: str) -> Path | None:
    base = source.path.parent.joinpath(*name.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def _of_package(name: str) -> Path | None:
    """The file of a module, found without running the package's own code."""
    spec: importlib.machinery.ModuleSpec | None = None
    parts = name.split(".")
    for part in range(1, len(parts) + 1):
        search: Any = None if spec is None else spec.submodule_search_locations
        if spec is not None and search is None:
            return None
        try:
            spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:part]), search)
        except (KeyError, ImportError):  # a namespace whose parent is not loaded
            return None
        if spec is None:
            return None
    origin = None if spec is None else spec.origin
    return Path(origin) if origin and origin.endswith(".py") else None


def find_module(name: str) -> Path | None:
    """The file that runs with ``-m name``; None where there is none."""
    return _of_package(f"{name}.__main__") or _of_package(name)


def _counted(nodes: Iterable[ast.AST]) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.Try) and any(_forgiving(handler) for handler in node.handlers):
            yield from _counted((*node.handlers, *node.orelse, *node.finalbody))
        elif isinstance(node, ast.If) and any(
            getattr(part, "id", getattr(part, "attr", "")) == "TYPE_CHECKING" for part in ast.walk(node.test)
        ):
            yield from _counted(node.orelse)
        else:
            yield from _counted(_statements(node))


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """What stands right inside; not the expressions, which are most of a program and import nothing."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        inside = getattr(tree, field, ())
        if isinstance(inside, list):
            yield from cast("list[ast.AST]", inside)


def _forgiving(handler: ast.ExceptHandler) -> bool:
    """Whether a missing import is expected here."""
    words = "" if handler.type is None else ast.dump(handler.type)
    return handler.type is None or any(
        f"'{name}'" in words for name in ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")
    )


def _has(module: str, name: str) -> bool:
    """Whether a module of ours has a name, also one that it makes when it is asked for."""
    return hasattr(importlib.import_module(ours(module)), name)


def found(name: str) -> Any:
    """What a dotted name of theirs means here."""
    if exists(name):
        return importlib.import_module(ours(name))
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(ours(module)), last)


def _names(module: str) -> set[str]:
    """What a module of ours has."""
    loaded = importlib.import_module(ours(module))
    return {*dir(loaded), *vars(loaded).get("__all__", ())}


def _all_names() -> dict[str, Iterable[str]]:
    """All public names of both families, by module; for suggestions only."""
    import pkgutil

    found: dict[str, Iterable[str]] = {}
    for family in FAMILIES:
        if not exists(family):
            continue
        package = importlib.import_module(ours(family))
        for module in pkgutil.walk_packages(package.__path__, ours(family) + "."):
            name = module.name.removeprefix("dovetail.compat.")
            try:
                found[name] = _names(name)
            except ImportError:
                continue
    return found
