"""Wrap structured output of any type for revisions that require an object.

A tool that returns a list declares a list, but 2025-06-18 and 2025-11-25 require an object. So both the
schema and the value are wrapped under one key, `WRAPPER`. The two edits run independently and must agree. A
value is wrapped if it is not an object. A schema is wrapped if it admits no object, kept if it admits only
objects, and removed if it admits both, because then it would not determine which values are wrapped.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from ...json_schema.keywords import BY_NAME, MAX_SCHEMA_DEPTH, VALUES
from ...json_schema.references import target
from ...model import TextContent, Tool
from ...shapes import is_list, is_object

WRAPPER = "result"
WRAP_HINT = "x-fastmcp-wrap-result"
"""The keyword by which clients of FastMCP know a wrapped schema: their ``data`` is then the value under `WRAPPER`."""

Schema = dict[str, Any]
Shape = Literal["object", "other", "either"]


def with_object_output(value: Any) -> Any:
    """Wrap the structured content of a result if it is not an object."""
    content = value.structured_content
    if content is UNSET or _is_object(content):
        return value
    return replace(value, structured_content={WRAPPER: content})


def _on_members(members: dict[str, Raw]) -> None:
    """The same for an encoded result."""
    content = members.get("structuredContent")
    if content is not None and not bytes(content).startswith(b"{"):
        members["structuredContent"] = Raw(b'{"%b":%b}' % (WRAPPER.encode(), bytes(content)))


with_object_output.on_members = _on_members  # pyright: ignore[reportFunctionMemberAccess]


def with_text_content(value: Any) -> Any:
    """Give a result that has structured content alone its text, for revisions without structured content."""
    if value.content or value.structured_content is UNSET:
        return value
    return replace(value, content=[TextContent(msgspec.json.encode(value.structured_content).decode())])


def _with_text_member(members: dict[str, Raw]) -> None:
    """Apply `with_text_content` to an encoded result."""
    structured = members.get("structuredContent")
    if structured is not None and bytes(members.get("content", b"[]")) == b"[]":
        text = TextContent(bytes(structured).decode())
        members["content"] = Raw(b"[%b]" % msgspec.json.encode(text))


with_text_content.on_members = _with_text_member  # pyright: ignore[reportFunctionMemberAccess]


def with_object_schema(tool: Tool) -> Tool:
    """Make the root of a tool's output schema an object, or remove the schema."""
    schema = tool.output_schema
    if schema is UNSET or schema.get("type") == "object":
        return tool
    return replace(tool, output_schema=_with_object_root(schema))


def _with_object_root(schema: Schema) -> Schema | UnsetType:
    shape = _shape(schema, schema, 0)
    if shape == "object":
        return {**schema, "type": "object"}
    try:
        return UNSET if shape == "either" else _wrapped(schema)
    except RecursionError:
        return UNSET  # infinite nesting; other tools of the list are not affected


_OBJECTS: Final = (dict, Struct)
_OTHERS: Final = (str, int, float, list, tuple, set, frozenset, type(None))
"""Constant tuples: ``a | b`` would create an object for every structured result."""


def _is_object(content: Any) -> bool:
    if isinstance(content, _OBJECTS):
        return True
    if isinstance(content, _OTHERS):
        return False
    if isinstance(content, Raw):
        return bytes(content).lstrip()[:1] == b"{"
    return is_object(msgspec.to_builtins(content))  # dataclasses and similar types


def _shape(schema: Any, root: Schema, depth: int) -> Shape:
    """Whether the schema admits objects only, no objects, or both."""
    if not is_object(schema) or depth > MAX_SCHEMA_DEPTH:
        return "either"
    declared = schema.get("type")
    if isinstance(declared, str):
        return "object" if declared == "object" else "other"
    if is_list(declared):
        return "either" if "object" in declared else "other"
    if "const" in schema or "enum" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        return _common({"object" if is_object(value) else "other" for value in values})
    if isinstance(schema.get("$ref"), str):
        return _shape(target(schema["$ref"], root), root, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if is_list(branches) and branches:
            return _common({_shape(branch, root, depth + 1) for branch in branches})
    return "either"


def _common(shapes: set[Shape]) -> Shape:
    return shapes.pop() if len(shapes) == 1 else "either"


def _wrapped(schema: Schema) -> Schema:
    inner = {key: value for key, value in schema.items() if key != "$schema"}
    # A schema with its own ``$id`` stays the root of its references.
    moved = inner if "$id" in inner else _moved(inner)
    outer: Schema = {
        "type": "object",
        "properties": {WRAPPER: moved},
        "required": [WRAPPER],
        WRAP_HINT: True,
    }
    return {"$schema": schema["$schema"], **outer} if "$schema" in schema else outer


def _moved(schema: Any) -> Any:
    """Return the schema with its references adapted to its new position."""
    if is_list(schema):
        return [_moved(item) for item in schema]
    if not is_object(schema):
        return schema
    moved: Schema = {}
    for keyword, value in schema.items():
        if keyword in ("$ref", "$dynamicRef") and isinstance(value, str) and value[:2] in ("#", "#/"):
            moved[keyword] = f"#/properties/{WRAPPER}{value[1:]}"
        elif keyword in BY_NAME and is_object(value):
            moved[keyword] = {name: _moved(item) for name, item in value.items()}
        else:
            moved[keyword] = value if keyword in VALUES else _moved(value)
    return moved
