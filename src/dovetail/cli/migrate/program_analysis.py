"""Analyse a program: its imports of the other libraries, its servers, and the names it defines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import libcst as cst
from libcst.metadata import QualifiedNameProvider, QualifiedNameSource

from .name_tables import LOW_LEVEL, RUNNING, SERVERS, TRANSPORTS

ROOTS = ("fastmcp", "mcp", "starlette")


def dotted(node: cst.CSTNode) -> str:
    """Return ``a.b.c`` as text; empty if ``node`` is another expression."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute) and (front := dotted(node.value)):
        return f"{front}.{node.attr.value}"
    return ""


def literal(node: cst.CSTNode) -> str | None:
    """Return the value of a string literal."""
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else None
    return value if isinstance(value, str) else None


def family(name: str) -> str:
    return name.partition(".")[0]


def annotated(annotation: cst.Annotation | None) -> Iterator[cst.BaseExpression]:
    """Return the types in an annotation: members of a union or ``Optional[…]``, and the name of a generic type."""
    if annotation is not None:
        yield from _parts(annotation.annotation)


def _parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.BinaryOperation):
        yield from _parts(node.left)
        yield from _parts(node.right)
    elif isinstance(node, cst.Subscript):
        yield node.value
        for element in node.slice:
            if dotted(node.value).rpartition(".")[2] == "Optional" and isinstance(element.slice, cst.Index):
                yield from _parts(element.slice.value)
    else:
        yield node


class Meaning(cst.MetadataDependent):
    """A visitor that resolves the names of a program."""

    METADATA_DEPENDENCIES = (QualifiedNameProvider,)

    imported: dict[str, str]
    """Name in this program → full name in the library."""

    def of(self, node: cst.CSTNode) -> str | None:
        """Return the full name of ``node`` in the library."""
        if isinstance(node, cst.SimpleString):
            return self.imported.get(literal(node) or "")
        found = self.get_metadata(QualifiedNameProvider, node, set())
        return next((one.name for one in found if one.source is QualifiedNameSource.IMPORT), None)


class Reading(cst.CSTVisitor, Meaning):
    """Reads a program before it is changed."""

    def __init__(self) -> None:
        super().__init__()
        self.imported = {}
        self.bound: set[str] = set()
        """Names that the program defines."""
        self.others: set[str] = set()
        """Imported packages of third parties."""
        self.servers: set[str] = set()
        """Expressions of servers: ``mcp``, ``self.mcp``."""
        self.low_level = False
        self.transports: dict[str, set[str]] = {}
        """Server → the transports of its ``run(…)`` calls."""
        self.routes = False
        """The program has custom HTTP routes."""

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        module = "." * len(node.relative) + (dotted(node.module) if node.module else "")
        if not isinstance(node.names, cst.ImportStar):
            self._import(node.names, module + ".")
        return False

    def visit_Import(self, node: cst.Import) -> bool:
        self._import(node.names, "")
        return False

    def _import(self, names: Sequence[cst.ImportAlias], front: str) -> None:
        for alias in names:
            here = local(alias)
            if family(front + dotted(alias.name)) in ROOTS:
                self.imported[here] = front + dotted(alias.name)
            else:
                self.others.add(family(front + dotted(alias.name)))
                self.bound.add(here)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.bound.add(node.name.value)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.bound.add(node.name.value)

    def visit_Param(self, node: cst.Param) -> None:
        self.bound.add(node.name.value)
        if any(self.of(part) in SERVERS for part in annotated(node.annotation)):
            self.servers.add(node.name.value)

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self._assigned(target.target, node.value)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._assigned(node.target, node.value)

    def _assigned(self, target: cst.BaseExpression, value: cst.BaseExpression | None) -> None:
        self.bound.add(dotted(target))
        if isinstance(value, cst.Call) and self.of(value.func) in SERVERS:
            self.servers.add(dotted(target))

    def visit_Call(self, node: cst.Call) -> None:
        self.low_level = self.low_level or self.of(node.func) in LOW_LEVEL
        method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
        if method in RUNNING and isinstance(node.func, cst.Attribute):
            said = RUNNING[method][1] or TRANSPORTS.get(transport(node) or "", "?")
            self.transports.setdefault(dotted(node.func.value), set()).add(said)
        self.routes = self.routes or method == "custom_route"


def transport(node: cst.Call) -> str | None:
    """Return the transport in a ``run(…)`` call; None if it is computed."""
    for argument in node.args:
        if argument.keyword is None or argument.keyword.value == "transport":
            return literal(argument.value) if not argument.star else None
    return "stdio"


def local(alias: cst.ImportAlias) -> str:
    """Return the name of an import in the program."""
    if alias.asname is not None:
        return dotted(alias.asname.name)
    return dotted(alias.name).partition(".")[0]


def parameters_of(meaning: Meaning, parameters: cst.Parameters, wanted: Collection[str]) -> dict[str, str]:
    """Return parameters annotated with one of ``wanted`` → its library."""
    every = (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params)
    return {
        one.name.value: family(name)
        for one in every
        for part in annotated(one.annotation)
        if (name := meaning.of(part)) is not None and name in wanted
    }
