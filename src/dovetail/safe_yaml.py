"""YAML text as plain data: PyYAML's safe loader with bounds, and the rules of YAML 1.2 for plain scalars.

PyYAML follows YAML 1.1, where ``no`` is false and ``2024-01-01`` is a date. OpenAPI and skills mean YAML 1.2, so this
loader has the scalar rules of its Core Schema. The text is not trusted: the events of the parser are counted
before anything is built, because the loader recurses in C and an alias can stand for a whole tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

from . import extras

_TAG: Final = "tag:yaml.org,2002:"
_TAGS: Final = {None, "!", *(_TAG + kind for kind in ("str", "int", "float", "bool", "null", "seq", "map"))}
_PLAIN_SCALARS: Final = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
)
"""Kind, pattern and possible first characters ("\\0" for an empty scalar)."""
_BASES: Final = {"0x": 16, "0o": 8}


class YamlError(ValueError):
    """The text is not YAML, exceeds a bound, or uses what data does not need. The message says where."""


def load_yaml(
    text: str | bytes, *, max_depth: int, max_nodes: int, aliases: bool, purpose: str, extra: str
) -> Any:
    """Return the one document in ``text``: dictionaries with text keys, lists, text, numbers, booleans and None.

    An alias counts as many nodes as it stands for; with ``aliases=False`` anchors and aliases are refused.
    ``purpose`` and ``extra`` are for the message when PyYAML is not installed.

    Raises:
        YamlError: the text cannot be read.
        DovetailError: PyYAML is not installed.
    """
    try:
        import yaml
    except ModuleNotFoundError:
        raise extras.missing("yaml", purpose, extra) from None
    library = cast("Any", yaml)
    loader = _loader()
    try:
        _check_events(library.parse(text, loader), max_depth, max_nodes, aliases)
        return library.load(text, loader)
    except library.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise YamlError(where + ", ".join(filter(None, (error.context, error.problem)))) from None
    except (library.YAMLError, UnicodeError) as error:
        raise YamlError(str(error).splitlines()[0]) from None


@cache
def _loader() -> Any:
    import yaml

    library = cast("Any", yaml)

    class Loader(getattr(library, "CSafeLoader", library.SafeLoader)):
        yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012  PyYAML's name and shape

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
            """Read the keys as they are written (``200:`` is the text "200", as in JSON), each of them once."""
            found: dict[str, Any] = {}
            for key, value in node.value:
                if not isinstance(key, library.ScalarNode):
                    raise _refused("a key must be a text", key.start_mark)
                if key.value in found:
                    raise _refused(f"the key {key.value!r} occurs twice", key.start_mark)
                found[key.value] = self.construct_object(value, deep=True)
            return found

        def construct_yaml_int(self, node: Any) -> int:
            # PyYAML reads 010 as 8 and 1:30 as 90, which are rules of YAML 1.1.
            try:
                return int(node.value, _BASES.get(node.value[:2], 10))
            except ValueError:
                raise _refused("this number cannot be read", node.start_mark) from None

        def construct_yaml_float(self, node: Any) -> float:
            try:
                return float(node.value)
            except ValueError:
                raise _refused("this number cannot be read", node.start_mark) from None

    def _refused(problem: str, mark: Any) -> Exception:
        return library.constructor.ConstructorError(None, None, problem, mark)

    Loader.add_constructor(_TAG + "int", Loader.construct_yaml_int)
    Loader.add_constructor(_TAG + "float", Loader.construct_yaml_float)
    for kind, pattern, starts in _PLAIN_SCALARS:
        signs = [sign if sign != "\0" else "" for sign in starts]
        Loader.add_implicit_resolver(_TAG + kind, re.compile(rf"(?:{pattern})\Z"), signs)
    return Loader


def _check_events(events: Iterable[Any], max_depth: int, max_nodes: int, aliases: bool) -> None:
    """Refuse a document that is too deep or too large, before a tree is made of it."""
    anchors: dict[str, tuple[int, int]] = {}
    """Finished anchor → the nodes it stands for, and their levels."""
    open_nodes: list[_OpenNode] = []
    count = 0
    for event in events:
        name = type(event).__name__
        where = f"line {event.start_mark.line + 1}"
        levels = 0
        if name == "AliasEvent":
            if event.anchor not in anchors:
                raise YamlError(f"{where}: the alias {event.anchor!r} names no finished value")
            nodes, levels = anchors[event.anchor]
            count += nodes
        elif name in ("ScalarEvent", "SequenceStartEvent", "MappingStartEvent"):
            if event.tag not in _TAGS:
                raise YamlError(f"{where}: the tag {event.tag!r} is not supported")
            if event.anchor is not None and not aliases:
                raise YamlError(f"{where}: anchors and aliases are not supported here")
            if name != "ScalarEvent":
                open_nodes.append(_OpenNode(event.anchor, count))
            elif event.anchor is not None:
                anchors[event.anchor] = 1, 0
            count += 1
        elif name in ("SequenceEndEvent", "MappingEndEvent"):
            ended = open_nodes.pop()
            levels = ended.levels + 1
            if ended.anchor is not None:
                anchors[ended.anchor] = count - ended.before, levels
        if open_nodes:
            open_nodes[-1].levels = max(open_nodes[-1].levels, levels)
        if count > max_nodes:
            raise YamlError(f"{where}: more than {max_nodes} values")
        if len(open_nodes) + levels > max_depth:
            raise YamlError(f"{where}: more than {max_depth} levels of nesting")


@dataclass
class _OpenNode:
    """A mapping or a sequence that has not ended."""

    anchor: str | None
    before: int
    """Nodes counted before it."""
    levels: int = 0
    """Levels below it, so far."""
