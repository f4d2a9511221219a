"""JSON files that people edit by hand: one member is set or taken out, everything else stays as it was written.

Comments and trailing commas are allowed, as editors write them. Nothing is formatted but the member itself.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from .bounds import CONFIG_DEPTH

_SPACE: Final = re.compile(r"(?:[ \t\r\n\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD: Final = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")


class JsoncError(ValueError):
    """The file cannot be read, so it is left alone."""


class _Member(NamedTuple):
    name: str
    begin: int
    value: int
    end: int


class _Object(NamedTuple):
    begin: int
    end: int
    """Of the closing brace."""
    members: list[_Member]


def read(text: str) -> Any:
    """What ``text`` says; an empty file is an empty object.

    Raises:
        JsoncError: it is no JSON, even with comments.
    """
    at = _skip(text, 0)
    if at == len(text):
        return {}
    value, end, _ = _value(text, at, 0)
    if _skip(text, end) != len(text):
        raise _wrong(text, end)
    return value


def put(text: str, path: tuple[str, ...], value: Any) -> str:
    """``text`` with ``value`` at ``path``; members on the way are made, what is there is replaced."""
    if _skip(text, 0) == len(text):
        text += "{}\n"
    found, at = _root(text), 0
    for depth, name in enumerate(path):
        member = next((one for one in found.members if one.name == name), None)
        last = depth == len(path) - 1
        if member is None:
            for inner in reversed(path[depth + 1 :]):
                value = {inner: value}
            return _insert(text, found, name, value, depth + 1)
        at = member.value
        if last:
            return text[:at] + _written(text, value, depth + 1) + text[member.end :]
        if text[at] != "{":
            raise JsoncError(f"{name!r} is no object")
        found = _object(text, at)
    return text


def take(text: str, path: tuple[str, ...]) -> str:
    """``text`` without the member at ``path``."""
    found = _root(text)
    for name in path[:-1]:
        member = next((one for one in found.members if one.name == name), None)
        if member is None or text[member.value] != "{":
            return text
        found = _object(text, member.value)
    for index, member in enumerate(found.members):
        if member.name == path[-1]:
            after = _skip(text, member.end)
            if after < len(text) and text[after] == ",":
                end = after + 1
                begin = member.begin
                line = re.match(r"[ \t]*\n?[ \t]*", text[end:])
                return text[:begin] + text[end + (line.end() if line else 0) :]
            begin = found.members[index - 1].end if index else found.begin + 1
            return text[:begin] + text[member.end :]
    return text


def _insert(text: str, found: _Object, name: str, value: Any, depth: int) -> str:
    unit = _unit(text)
    line = f"{json.dumps(name, ensure_ascii=False)}: {_written(text, value, depth)}"
    pad = "\n" + unit * depth
    if not found.members:
        return f"{text[: found.begin + 1]}{pad}{line}\n{unit * (depth - 1)}{text[found.end :]}"
    end = found.members[-1].end
    return f"{text[:end]},{pad}{line}{text[_after_comma(text, end) :]}"


def _after_comma(text: str, end: int) -> int:
    after = _skip(text, end)
    return after + 1 if text[after] == "," else end


def _written(text: str, value: Any, depth: int) -> str:
    unit = _unit(text)
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    return ("\n" + unit * depth).join(lines)


def _unit(text: str) -> str:
    """How the file is indented."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _root(text: str) -> _Object:
    read(text)
    at = _skip(text, 0)
    if text[at] != "{":
        raise JsoncError("the file holds no object")
    return _object(text, at)


def _object(text: str, at: int) -> _Object:
    _, end, members = _value(text, at, 0)
    return _Object(at, end - 1, members)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _wrong(text: str, at: int) -> JsoncError:
    return JsoncError(f"line {text.count(chr(10), 0, at) + 1} is no JSON")


def _value(text: str, at: int, depth: int) -> tuple[Any, int, list[_Member]]:
    """The value that begins at ``at``, where it ends, and the members of an object."""
    if depth > CONFIG_DEPTH:
        raise JsoncError("it nests too deeply")
    first = text[at : at + 1]
    if first in ("{", "["):
        return _several(text, at, depth, "}" if first == "{" else "]")
    found = (_STRING if first == '"' else _WORD).match(text, at)
    if found is None:
        raise _wrong(text, at)
    try:
        return json.loads(found[0]), found.end(), []
    except ValueError:
        raise _wrong(text, at) from None


def _several(text: str, at: int, depth: int, close: str) -> tuple[Any, int, list[_Member]]:
    values: list[Any] = []
    members: list[_Member] = []
    at = _skip(text, at + 1)
    while text[at : at + 1] != close:
        begin, name = at, None
        if close == "}":
            name, at, _ = _value(text, at, depth + 1)
            at = _skip(text, at)
            if not isinstance(name, str) or text[at : at + 1] != ":":
                raise _wrong(text, at)
            at = _skip(text, at + 1)
        value, end, _ = _value(text, at, depth + 1)
        values.append(value)
        members.append(_Member(name or "", begin, at, end))
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != close:
            raise _wrong(text, at)
    if close == "]":
        return values, at + 1, []
    return {one.name: value for one, value in zip(members, values, strict=True)}, at + 1, members
