"""What a program is made of: what it imports of others, where its servers are, which names it has given away."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import libcst as cst
from libcst.metadata import QualifiedNameProvider, QualifiedNameSource

from .name_tables import LOW_LEVEL, RUNNING, SERVERS, TRANSPORTS

ROOTS = ("fastmcp", "mcp", "starlette")


def dotted(node: cst.CSTNode) -> str:
    """``a.b.c`` as text; empty where it is more than names and dots."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute) and (front := dotted(node.value)):
        return f"{front}.{node.attr.value}"
    return ""


def literal(node: cst.CSTNode) -> str | None:
    """The text of a plain string."""
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else None
    return value if isinstance(value, str) else None


def family(name: str) -> str:
    return name.partition(".")[0]


def annotated(annotation: cst.Annotation | None) -> Iterator[cst.BaseExpression]:
    """The types an annotation may mean: those of a union and of ``Optional[…]``; a generic one by its own name."""
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
    """Who walks through a program and knows what its names mean."""

    METADATA_DEPENDENCIES = (QualifiedNameProvider,)

    imported: dict[str, str]
    """Name in this program → what it is there."""

    def of(self, node: cst.CSTNode) -> str | None:
        """What ``node`` means of what is imported."""
        if isinstance(node, cst.SimpleString):
            return self.imported.get(literal(node) or "")
        found = self.get_metadata(QualifiedNameProvider, node, set())
        return next((one.name for one in found if one.source is QualifiedNameSource.IMPORT), None)


class Reading(cst.CSTVisitor, Meaning):
    """One walk through a program, before anything of it is changed."""

    def __init__(self) -> None:
        super().__init__()
        self.imported = {}
        self.bound: set[str] = set()
        """Names that mean something of the program's own."""
        self.others: set[str] = set()
        """Packages of nobody's here that are imported."""
        self.servers: set[str] = set()
        """Where servers are, as they are written: ``mcp``, ``self.mcp``."""
        self.low_level = False
        self.transports: dict[str, set[str]] = {}
        """Server → the transports that it is run with."""
        self.routes = False
        """It has HTTP routes beside its server's endpoint."""

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
    """The transport that a ``run(…)`` names; None where it is computed."""
    for argument in node.args:
        if argument.keyword is None or argument.keyword.value == "transport":
            return literal(argument.value) if not argument.star else None
    return "stdio"


def local(alias: cst.ImportAlias) -> str:
    """What an import is called in the program."""
    if alias.asname is not None:
        return dotted(alias.asname.name)
    return dotted(alias.name).partition(".")[0]


def parameters_of(meaning: Meaning, parameters: cst.Parameters, wanted: Collection[str]) -> dict[str, str]:
    """Parameters annotated with one of ``wanted`` → the family it is of."""
    every = (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params)
    return {
        one.name.value: family(name)
        for one in every
        for part in annotated(one.annotation)
        if (name := meaning.of(part)) is not None and name in wanted
    }
