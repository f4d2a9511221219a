"""Edit YAML files: set or remove one entry of a mapping and keep all other bytes.

ruamel.yaml finds where nodes begin and end, and only this text is replaced. Its writer would change indentation and
quotes in the whole file. An entry is its key, its value and the comments that are indented deeper than its key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from .. import extras
from ..shapes import is_object

_STEP: Final = 2
"""Spaces of one level, for a file without indentation."""


class YamlFileError(ValueError):
    """The file cannot be parsed, or has a form that Dovetail cannot edit."""


def read(text: str) -> dict[str, Any]:
    """Parse ``text``; an empty file is an empty mapping. Raises ValueError."""
    found: Any = _call("load", "safe", text)
    if found is not None and not is_object(found):
        raise YamlFileError("the file does not contain a mapping")
    return found or {}


def snippet(section: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return ``section`` with only ``name`` in it, as text."""
    return f"{section}:\n{_written(name, entry, _STEP, _STEP, chr(10))}"


def put(text: str, path: tuple[str, ...], entry: Mapping[str, Any]) -> str:
    """Return ``text`` with ``entry`` at ``path``: at the position of the old entry, or last in its section."""
    section, name = path
    newline = "\r\n" if "\r\n" in text else "\n"
    root = _compose(text)
    found = _find(root, section)
    if found is None:
        column = root.value[0][0].start_mark.column if root is not None and root.value else 0
        step = _step(root)
        written = _written(name, entry, column + step, step, newline)
        return f"{_ended(text, newline)}{' ' * column}{section}:{newline}{written}"
    key, value = found
    if value.id == "mapping" and not value.flow_style and value.value:
        column = value.value[0][0].start_mark.column
        written = _written(name, entry, column, _step(value) if _is_nested(value) else _step(root), newline)
        same = _find(value, name)
        begin, end = _range(text, *(same or value.value[-1]))
        return (
            text[:begin] + written + text[end:]
            if same
            else _ended(text[:end], newline) + written + text[end:]
        )
    if value.id != "scalar" and value.value:
        raise YamlFileError(f"{section} is not a mapping in block style (one `name:` per line)")
    step = _step(root)
    if value.start_mark.index != value.end_mark.index:  # {} or null becomes the lines below
        text = text[: value.start_mark.index].rstrip(" ") + text[value.end_mark.index :]
    line_end = text.find("\n", key.end_mark.index) + 1 or len(text)
    written = _written(name, entry, key.start_mark.column + step, step, newline)
    return _ended(text[:line_end], newline) + written + text[line_end:]


def take(text: str, path: tuple[str, ...]) -> str:
    """Return ``text`` without the entry at ``path``."""
    title, name = path
    section = _find(_compose(text), title)
    entry = section and _find(section[1], name)
    if section is None or entry is None:
        return text
    if section[1].flow_style:
        raise YamlFileError(f"{title} is not a mapping in block style (one `name:` per line)")
    begin, end = _range(text, *entry)
    after = text[:begin] + text[end:]
    if len(section[1].value) > 1:
        return after
    # An empty section would be null.
    colon = text.index(":", section[0].end_mark.index) + 1
    return f"{after[:colon]} {{}}{after[colon:]}"


def _find(mapping: Any, name: str) -> tuple[Any, Any] | None:
    """Return the key and the value of ``name``."""
    pairs: list[tuple[Any, Any]] = mapping.value if mapping is not None and mapping.id == "mapping" else []
    return next((pair for pair in pairs if pair[0].value == name), None)


def _range(text: str, key: Any, value: Any) -> tuple[int, int]:
    """Return the start and the end of the lines of an entry."""
    begin = text.rfind("\n", 0, key.start_mark.index) + 1
    if text[begin : key.start_mark.index].strip(" "):
        raise YamlFileError(f"line {key.start_mark.line + 1}: {key.value!r} does not begin its line")
    end = text.find("\n", _last(key, value)) + 1 or len(text)
    at = end
    while at < len(text):
        after = text.find("\n", at) + 1 or len(text)
        line = text[at:after].rstrip("\r\n")
        if line.strip():
            if len(line) - len(line.lstrip(" ")) <= key.start_mark.column:
                break
            end = after
        at = after
    return begin, end


def _last(key: Any, value: Any) -> int:
    """Return the last line of an entry. Lines of a block scalar follow it, indented deeper."""
    if value.start_mark.index < key.start_mark.index:  # an alias: the node is at its anchor
        return key.end_mark.index
    if value.id == "scalar":
        if value.style in ("|", ">"):
            return value.start_mark.index
        return max(key.end_mark.index, value.end_mark.index if value.value or value.style else 0)
    if value.flow_style:
        return value.end_mark.index
    if not value.value:
        return key.end_mark.index
    last = value.value[-1]
    return _last(*last) if value.id == "mapping" else _last(last, last)


def _step(mapping: Any) -> int:
    """Return the indentation of the first mapping in ``mapping``."""
    for key, value in mapping.value if mapping is not None and mapping.id == "mapping" else ():
        if value.id == "mapping" and not value.flow_style and value.value:
            return max(value.value[0][0].start_mark.column - key.start_mark.column, 1)
    return _STEP


def _is_nested(mapping: Any) -> bool:
    return any(value.id == "mapping" and not value.flow_style and value.value for _, value in mapping.value)


def _written(name: str, entry: Mapping[str, Any], column: int, step: int, newline: str) -> str:
    lines = [f"{' ' * column}{name}:"]
    for key, value in entry.items():
        lines.append(f"{' ' * (column + step)}{key}: {json.dumps(value, ensure_ascii=False)}")  # JSON is YAML
    return newline.join([*lines, ""])


def _ended(text: str, newline: str) -> str:
    return text if not text or text.endswith("\n") else text + newline


def _compose(text: str) -> Any:
    root = _call("compose", "rt", text)
    if root is not None and (root.id != "mapping" or root.flow_style):
        raise YamlFileError("the file is not a mapping in block style (one `name:` per line)")
    return root


def _call(method: str, kind: str, text: str) -> Any:
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
    except ModuleNotFoundError:
        raise extras.missing("ruamel.yaml", "editing a YAML file") from None
    reader = cast("Any", YAML(typ=kind, pure=True))
    try:
        return getattr(reader, method)(text)
    except (YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        parts = [getattr(error, part, None) for part in ("context", "problem")]
        raise YamlFileError(where + (", ".join(filter(None, parts)) or str(error).splitlines()[0])) from None
