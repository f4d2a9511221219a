"""Edit JSON files with comments: set or remove one member and keep all other bytes.

Comments and trailing commas are allowed, as editors write them. A new member is indented like its siblings. A comment
belongs to the member that precedes it on the same line; every other comment stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

CONFIG_DEPTH: Final = 200
"""The deepest nesting of a configuration file."""


_SPACE: Final = re.compile(r"(?:[ \t\r\n]|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_SAME_LINE: Final = re.compile(r"[ \t]*(?:/\*[^\r\n]*?\*/[ \t]*)*(?://[^\r\n]*)?")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD: Final = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")


class JsoncError(ValueError):
    """The file cannot be parsed, or cannot be edited without other changes."""


class _Member(NamedTuple):
    name: str
    begin: int
    value: int
    end: int
    """The offset at which the value ends."""
    comma: int | None
    """The offset after its comma; None without a comma."""


class _Object(NamedTuple):
    begin: int
    close: int
    """The offset of the closing brace."""
    members: list[_Member]


def read(text: str) -> Any:
    """Parse ``text``; an empty file is an empty object.

    Raises:
        JsoncError: ``text`` is not JSON with comments.
    """
    at = _skip(text, 0)
    if at == len(text):
        return {}
    value, end, _ = _value(text, at, 0)
    if _skip(text, end) != len(text):
        raise _wrong(text, end)
    return value


def snippet(section: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return ``section`` with only ``name`` in it, as text."""
    return json.dumps({section: {name: entry}}, indent=2, ensure_ascii=False) + "\n"


def put(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return ``text`` with ``value`` at ``path``; missing members on the path are created."""
    if _skip(text, 0) == len(text):
        gap = "" if not text or text.endswith("\n") else _newline(text)  # a comment may end the file
        text += gap + "{}" + _newline(text)
    found = _root(text)
    for depth, name in enumerate(path):
        member = _member(found, name)
        if member is None:
            for inner in reversed(path[depth + 1 :]):
                value = {inner: value}
            return _insert(text, found, name, value)
        if depth == len(path) - 1:
            compact = not _on_own_line(text, member.begin) and "\n" not in text[member.value : member.end]
            written = _written(text, value, None if compact else _indentation(text, member.begin))
            return text[: member.value] + written + text[member.end :]
        if text[member.value] != "{":
            raise JsoncError(f"{name!r} is not an object")
        found = _object(text, member.value)
    return text


def take(text: str, path: tuple[str, ...]) -> str:
    """Return ``text`` without the member at ``path``."""
    if _skip(text, 0) == len(text):
        return text
    found = _root(text)
    for name in path[:-1]:
        member = _member(found, name)
        if member is None or text[member.value] != "{":
            return text
        found = _object(text, member.value)
    member = _member(found, path[-1])
    return text if member is None else _remove(text, found, found.members.index(member))


def _member(found: _Object, name: str) -> _Member | None:
    same = [one for one in found.members if one.name == name]
    if len(same) > 1:
        raise JsoncError(f"the member {name!r} occurs twice")
    return same[0] if same else None


def _insert(text: str, found: _Object, name: str, value: Any) -> str:
    newline, key = _newline(text), json.dumps(name, ensure_ascii=False)
    if not found.members:
        base = _indentation(text, found.begin)
        pad = base + _unit(text)
        head = text[: found.close].rstrip()  # a comment in the braces stays above the new member
        return f"{head}{newline}{pad}{key}: {_written(text, value, pad)}{newline}{base}{text[found.close :]}"
    last = found.members[-1]
    comma = "," if last.comma is not None else ""
    if not _on_own_line(text, last.begin):
        member = f"{key}: {_written(text, value, None)}{comma}"
        if last.comma is not None:
            return f"{text[: last.comma]} {member}{text[last.comma :]}"
        return f"{text[: last.end]}, {member}{text[last.end :]}"
    pad = _indentation(text, last.begin)
    if last.comma is None:
        text, end = f"{text[: last.end]},{text[last.end :]}", last.end + 1
    else:
        end = last.comma
    at = _line_end(text, end)
    at = end if at is None else at
    return f"{text[:at]}{newline}{pad}{key}: {_written(text, value, pad)}{comma}{text[at:]}"


def _remove(text: str, found: _Object, index: int) -> str:
    member = found.members[index]
    begin, end = member.begin, member.end if member.comma is None else member.comma
    after = _line_end(text, end)
    if _on_own_line(text, begin) and after is not None:
        begin -= len(_indentation(text, begin))
        end = after + len(_newline_at(text, after))
    elif index and index == len(found.members) - 1:
        begin = len(text[:begin].rstrip(" \t"))
    else:
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    head, tail = text[:begin], text[end:]
    if member.comma is None and index:
        # The previous member is the last one now; this file has no trailing commas.
        comma = found.members[index - 1].comma
        assert comma is not None
        head = head[: comma - 1] + (head[comma:] if head[comma:].strip() or "\n" in head[comma:] else "")
    if (
        len(found.members) == 1
        and not text[found.begin + 1 : begin].strip()
        and not text[end : found.close].strip()
    ):
        return text[: found.begin + 1] + text[found.close :]
    return head + tail


def _written(text: str, value: Any, pad: str | None) -> str:
    """Return ``value`` as JSON, with lines indented by ``pad``, or in one line."""
    if pad is None:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return (_newline(text) + pad).join(lines)


def _unit(text: str) -> str:
    """Return the indentation of the file: that of the first member of the outermost object."""
    at = _skip(text, 0)
    if text[at : at + 1] == "{":
        found = _object(text, at)
        if found.members and _on_own_line(text, found.members[0].begin):
            unit = _indentation(text, found.members[0].begin).removeprefix(_indentation(text, at))
            return unit or "  "
    return "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _newline_at(text: str, at: int) -> str:
    return "\r\n" if text.startswith("\r\n", at) else text[at : at + 1]


def _line_end(text: str, at: int) -> int | None:
    """Return the end of the line at ``at`` if only comments follow, else None."""
    found = _SAME_LINE.match(text, at)
    end = found.end() if found is not None else at
    return end if text[end : end + 1] in ("\n", "\r", "") else None


def _indentation(text: str, at: int) -> str:
    """Return the indentation of the line at ``at``."""
    found = re.compile(r"[ \t]*").match(text, text.rfind("\n", 0, at) + 1)
    return found[0] if found is not None else ""


def _on_own_line(text: str, at: int) -> bool:
    begin = text.rfind("\n", 0, at) + 1
    return begin > 0 and not text[begin:at].strip(" \t")


def _root(text: str) -> _Object:
    read(text)
    at = _skip(text, 0)
    if text[at] != "{":
        raise JsoncError("the file does not contain an object")
    return _object(text, at)


def _object(text: str, at: int) -> _Object:
    _, end, members = _value(text, at, 0)
    return _Object(at, end - 1, members)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _wrong(text: str, at: int) -> JsoncError:
    return JsoncError(f"line {text.count(chr(10), 0, at) + 1} is not JSON")


def _value(text: str, at: int, depth: int) -> tuple[Any, int, list[_Member]]:
    """Return the value that begins at ``at``, its end, and the members of an object."""
    if depth > CONFIG_DEPTH:
        raise JsoncError(f"it has more than {CONFIG_DEPTH} levels of nesting")
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
        value_at, comma = at, None
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            comma = at + 1
            at = _skip(text, comma)
        elif text[at : at + 1] != close:
            raise _wrong(text, at)
        values.append(value)
        members.append(_Member(name or "", begin, value_at, end, comma))
    if close == "]":
        return values, at + 1, []
    return {one.name: value for one, value in zip(members, values, strict=True)}, at + 1, members
