"""Errors that name the location and the expected type of a wrong value, never the value itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from ...errors import DovetailError, ProtocolError
from ...json_schema.problem import Problem
from ...json_schema.references import target
from ...shapes import is_object

HINTS: Final = 3
"""Unknown arguments of one call for which a similar known name is suggested."""
NAME_SHOWN: Final = 40
"""The length to which an error shortens the name of an unknown argument, also for the comparison with known names."""


MOST_PROBLEMS: Final = 10
"""The maximum of reported problems of one value."""
VALUES_SHOWN: Final = 20
"""The maximum of allowed values in a message about a value that is not one of them."""

# Compiled with the first wrong value, to keep start-up fast.
_AT: Final = r" - at (?:`key` in )?`([^`]*)`"
_STEP: Final = r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]"
_QUOTED: Final = r"`(int|str|float|bool|null|array|object)( \| [^`]*)?`"
_JSON_NAMES: Final = {"int": "integer", "str": "string", "float": "number", "bool": "boolean"}


class InvalidArguments(ProtocolError):
    """The arguments of a call are not valid; ``problems`` says where and why."""

    def __init__(self, name: str, problems: Sequence[Problem], kind: str = "invalid_tool_arguments") -> None:
        self.problems = tuple(problems[:MOST_PROBLEMS])
        super().__init__(
            kind,
            f"Invalid arguments for {name}: {'; '.join(map(str, self.problems))}",
            data={"errors": [{"path": p.path, "reason": p.reason} for p in self.problems]},
        )


class ReturnError(DovetailError):
    """A handler returned a value that its declaration does not allow: the log gets the details, the peer a masked
    error.
    """

    kind = "tool_execution_failed"

    def __init__(self, name: str, problems: Sequence[Problem], kind: str | None = None) -> None:
        self.problems = tuple(problems[:MOST_PROBLEMS])
        super().__init__(f"{name} returned a wrong value: {'; '.join(map(str, self.problems))}", kind=kind)


def unknown(names: Iterable[str], known: Iterable[str]) -> list[Problem]:
    """The problems of unknown arguments; the first ones suggest the name that was probably meant."""
    import difflib  # needed only after a failed decode

    found: list[Problem] = []
    for number, name in enumerate(islice(names, MOST_PROBLEMS)):
        shown = name if len(name) <= NAME_SHOWN else name[:NAME_SHOWN] + "…"
        near = difflib.get_close_matches(name[:NAME_SHOWN], list(known), n=1) if number < HINTS else ()
        hint = f", did you mean {near[0]!r}?" if near else ""
        found.append(Problem("", f"unknown argument {shown!r}{hint}"))
    return found


def read(text: str, schema: Mapping[str, Any], prefix: str = "") -> Problem:
    """Convert a message of msgspec to a `Problem`; ``schema`` is the root document."""
    # A nested custom type leaves one path each, the innermost first.
    path = prefix + "".join(found[1:] for found in reversed(re.findall(_AT, text)))
    reason = re.sub(_QUOTED, _json_type, re.sub(_AT, "", text))
    if reason.startswith(("Invalid enum value", "Invalid value")):
        # msgspec shows the value here; the allowed values are more useful.
        reason = _allowed(schema, path)
    elif found := re.fullmatch(r"Object contains unknown field `(.*)`", reason, re.DOTALL):
        known = [name for node in _nodes(schema, path) for name in node.get("properties", {})]
        reason = unknown([found[1]], known)[0].reason.replace("argument", "member", 1)
    elif found := re.fullmatch(r"Object missing required field `(.*)`", reason):
        reason = f"missing {found[1]!r}"
    return Problem(path.lstrip("."), reason[:1].lower() + reason[1:])


def _json_type(found: re.Match[str]) -> str:
    names = found[0].strip("`").split(" | ")
    return " or ".join(_JSON_NAMES.get(name, name) for name in names)


def _allowed(schema: Mapping[str, Any], path: str) -> str:
    every: Iterator[list[Any]] = (
        [node["const"]] if "const" in node else node.get("enum", []) for node in _nodes(schema, path)
    )
    values = next(filter(None, every), list[Any]())[:VALUES_SHOWN]
    listed = ", ".join(repr(v) if isinstance(v, str) else msgspec.json.encode(v).decode() for v in values)
    return f"must be one of {listed}" if listed else "is not one of the allowed values"


def _nodes(schema: Mapping[str, Any], path: str) -> list[Mapping[str, Any]]:
    """All subschemas that apply to ``path``."""
    nodes = _spread([schema], schema)
    for found in re.finditer(_STEP, path):
        name, index = found.groups()
        nodes = _spread([child for node in nodes for child in _children(node, name, index)], schema)
    return nodes


def _children(node: Mapping[str, Any], name: str | None, index: str | None) -> Iterable[Any]:
    if name is not None:
        return (node.get("properties", {}).get(name),)
    if index is None:
        return (node.get("additionalProperties"),)
    prefix = node.get("prefixItems", [])
    return (prefix[int(index)],) if int(index) < len(prefix) else (node.get("items"),)


def _spread(nodes: list[Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Follow references into ``$defs`` and expand alternatives, a few levels deep."""
    result: list[Mapping[str, Any]] = []
    for _ in range(4):
        following: list[Any] = []
        for node in nodes:
            if not is_object(node):
                continue
            result.append(node)
            following += [*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())]
            if "$ref" in node:
                following.append(target(node["$ref"], root))
        nodes = following
    return result
