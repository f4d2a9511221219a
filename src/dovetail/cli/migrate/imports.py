"""Rewrite the imports of a migrated program: add those of Dovetail, remove those that are no longer used."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, Final

import libcst as cst

from .name_tables import HINTS
from .program_analysis import ROOTS, dotted, family, literal, local
from .rewriting import marked

_WIDTH: Final = 88
"""The length above which an import is written on several lines."""


class Used(cst.CSTVisitor):
    """Collects the names that a program uses, including those in quoted annotations."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        node.value.visit(self)
        return False

    def visit_Name(self, node: cst.Name) -> None:
        self.names.add(node.value)

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        text = literal(node) or ""
        if re.fullmatch(r"[\w.\[\], |]+", text):
            self.names.update(re.findall(r"\w+", text))


def used(module: cst.Module) -> set[str]:
    found = Used()
    module.visit(found)
    return found.names


class Importing(cst.CSTTransformer):
    """Rewrites imports. ``before`` and ``after`` are the used names; ``gone`` are the names that were replaced.

    ``needed`` are names of Dovetail: ``Server``, or ``dovetail.Server`` if the program uses the short name.
    """

    def __init__(
        self, before: Collection[str], after: Collection[str], gone: Collection[str], needed: Collection[str]
    ) -> None:
        super().__init__()
        self._before, self._after, self._gone = before, after, gone
        self._depth = 0
        self._carried: list[cst.EmptyLine] = []
        self._new: list[Any] = (
            [cst.parse_statement("import dovetail\n")] if any("." in name for name in needed) else []
        )
        if alone := sorted(
            (name for name in needed if "." not in name), key=lambda name: (name.islower(), name)
        ):
            self._new.append(cst.parse_statement(_line(alone)))

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> None:
        self._depth += 1

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        self._depth -= 1
        return updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel:
        line = updated_node
        if self._carried:
            line = line.with_changes(leading_lines=[*self._carried, *line.leading_lines])
            self._carried = []
        statement = line.body[0]
        if len(line.body) != 1 or not isinstance(statement, cst.Import | cst.ImportFrom):
            return line
        kept, left = self._keep(statement)
        if kept is statement:
            return marked(line, left) if left else line
        rest = [] if kept is None else [line.with_changes(body=[kept], leading_lines=())]
        rest = [marked(one, left) if left else one for one in rest]
        if self._depth or not self._new:
            return self._without(line, rest)
        new, self._new = self._new, []
        first = new[0].with_changes(leading_lines=line.leading_lines)
        if kept is None and len(new) == 1:
            first = first.with_changes(trailing_whitespace=line.trailing_whitespace)
        return cst.FlattenSentinel([first, *new[1:], *rest])

    def _without(
        self, line: cst.SimpleStatementLine, rest: Sequence[cst.SimpleStatementLine]
    ) -> cst.BaseStatement | cst.RemovalSentinel:
        if rest:
            return rest[0].with_changes(leading_lines=[*line.leading_lines, *rest[0].leading_lines])
        self._carried = [one for one in line.leading_lines if one.comment is not None]
        return cst.RemoveFromParent()

    def _keep(
        self, statement: cst.Import | cst.ImportFrom
    ) -> tuple[cst.Import | cst.ImportFrom | None, list[str]]:
        """Return the rest of an import, and a comment about it."""
        front = ""
        if isinstance(statement, cst.ImportFrom):
            if statement.relative or statement.module is None or isinstance(statement.names, cst.ImportStar):
                return statement, self._star(statement)
            front = dotted(statement.module) + "."
        if isinstance(statement.names, cst.ImportStar):
            return statement, []
        kept = [one for one in statement.names if not self._goes(one, front + dotted(one.name))]
        left = [word for one in kept if (word := _left(front + dotted(one.name)))]
        if len(kept) == len(statement.names):
            return statement, left
        if not kept:
            return None, []
        kept[-1] = kept[-1].with_changes(comma=statement.names[-1].comma)
        return statement.with_changes(names=kept), left

    def _star(self, statement: cst.ImportFrom) -> list[str]:
        theirs = statement.module is not None and family(dotted(statement.module)) in ("fastmcp", "mcp")
        return (
            ["import the names that are used, and migrate again"] if theirs and not statement.relative else []
        )

    def _goes(self, alias: cst.ImportAlias, name: str) -> bool:
        here = local(alias)
        if name in self._gone:
            return True
        return family(name) in ROOTS and here in self._before and here not in self._after

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        if not self._new:
            return updated_node
        place = next(
            (at for at, statement in enumerate(updated_node.body) if not _opening(statement)),
            len(updated_node.body),
        )
        body = [*updated_node.body[:place], *self._new, *updated_node.body[place:]]
        return updated_node.with_changes(body=body)


def _line(names: list[str]) -> str:
    line = f"from dovetail import {', '.join(names)}"
    return line if len(line) <= _WIDTH else "from dovetail import (\n    " + ",\n    ".join(names) + ",\n)"


def _opening(statement: cst.CSTNode) -> bool:
    """Return whether ``node`` must be first: a docstring or a future import."""
    first = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if isinstance(first, cst.ImportFrom):
        return first.module is not None and dotted(first.module) == "__future__"
    return isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString)


def _left(name: str) -> str:
    if family(name) not in ("fastmcp", "mcp"):
        return ""
    hint = max((one for one in HINTS if name.startswith(one)), key=len, default=None)
    return f"{name} has no counterpart in Dovetail" + (f": {HINTS[hint]}" if hint else "")
