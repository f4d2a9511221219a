"""Private names of the originals that a program replaces: ours call none of them, so nothing would come of it.

`patches` finds them by reading the program, `replaced` by looking at our classes and modules once the program is about
to serve: names may be computed, and other packages may replace them. A private name that a program puts on a class for
itself, and reads again, is its own business.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from .private_names import PRIVATE

CALLED: Final = frozenset(
    {
        "_build_create_message_request", "_build_elicit_form_request", "_get_cached_tool_definition",
        "_handle_incoming", "_handle_message", "_handle_notification", "_handle_request", "_handle_response",
        "_handle_stateful_request", "_handle_stateless_request", "_make_error_result", "_receive_loop",
        "_received_notification", "_received_request", "_send_response",
    }
)  # fmt: skip
"""What sessions and servers of SDK 1.x call inside: it is meant, on whatever object it is replaced."""


class Touch(Struct):
    """One place where an attribute is set or read."""

    owner: ast.expr
    name: str
    line: int
    sets: bool


def patches(
    nodes: list[ast.AST], named: Callable[[ast.expr], str | None], found: Callable[[str], Any]
) -> Iterator[tuple[str, int]]:
    """What is replaced in vain, with its line.

    ``named`` gives the dotted name of an expression that means something of the families, ``found`` our object for it.
    """
    touches = sorted(_touches(nodes), key=lambda one: (one.line, one.sets))
    read = {one.name for one in touches if not one.sets}
    seen: set[str] = set()
    for one in touches:
        owner = named(one.owner)
        if owner is None:
            if one.sets and one.name in CALLED and not _is_self(one.owner):
                yield one.name, one.line
            continue
        whole = f"{owner}.{one.name}"
        if whole in seen or hasattr(found(owner), one.name):
            continue
        seen.add(whole)
        # Read first: the original was to be kept. Set and never read: somebody else was to call it.
        if not one.sets or one.name in CALLED or one.name not in read:
            yield whole, one.line
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            yield from _overridden(node, named, found)


def _touches(nodes: list[ast.AST]) -> Iterator[Touch]:
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            yield Touch(node.value, node.attr, node.lineno, isinstance(node.ctx, ast.Store))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            match node.args:
                case [owner, ast.Constant(value=str(name)), _] if name.startswith("_"):
                    yield Touch(owner, name, node.lineno, True)
                case _:
                    pass


def _overridden(
    node: ast.ClassDef, named: Callable[[ast.expr], str | None], found: Callable[[str], Any]
) -> Iterator[tuple[str, int]]:
    bases = [base for base in map(named, node.bases) if base is not None]
    for inside in node.body:
        if isinstance(inside, ast.FunctionDef | ast.AsyncFunctionDef) and inside.name in CALLED:
            for base in bases:
                if not hasattr(found(base), inside.name):
                    yield f"{base}.{inside.name}", inside.lineno


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


_OURS: Final = "dovetail.compat."


def replaced(server: Any) -> Iterator[tuple[str, Any]]:
    """What stands in our modules and classes, and in and below those of ``server``, where nothing of ours would be."""
    for place, names in PRIVATE.items():
        owner = _loaded(place)
        yield from _named({} if owner is None else vars(owner), [(place, names.split())])
    front = getattr(server, "front", None)
    for one in (front, getattr(front, "fastmcp", None), getattr(front, "_fastmcp", None)):
        known = [
            (place, PRIVATE[place].split())
            for kind in type(one).__mro__
            if (place := _place(kind)) in PRIVATE
        ]
        for kind in type(one).__mro__ if known else ():
            yield from _named({} if _is_ours(kind) else vars(kind), known)
        yield from _named(vars(one) if known else {}, known)


def _named(held: Any, known: list[tuple[str, list[str]]]) -> Iterator[tuple[str, Any]]:
    for place, names in known:
        yield from ((f"{place}.{name}", held[name]) for name in names if name in held)


def _loaded(place: str) -> Any:
    """Our module or class for a dotted name of theirs; None where it is not loaded."""
    module, _, last = place.rpartition(".")
    found = sys.modules.get(_OURS + place)
    if found is None and (above := sys.modules.get(_OURS + module)) is not None:
        found = vars(above).get(last)
    return found


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("dovetail.")


def _place(kind: type) -> str:
    return f"{kind.__module__.removeprefix(_OURS)}.{kind.__qualname__}" if _is_ours(kind) else ""
