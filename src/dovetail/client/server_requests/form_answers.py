"""Answers to forms: reading what a callback returned, and filling in the defaults a form declares.

A callback may return the typed `ElicitResult`, the dictionary of the specification (``{"action", "content"}``), one
of the words "accept", "decline" and "cancel", a bool, or the content itself: a dictionary, an object with fields, or,
for a form with one field, its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast, runtime_checkable

import msgspec
from msgspec import UNSET

from ...model import ElicitAction, ElicitResult

ACTIONS = frozenset({"accept", "decline", "cancel"})
_SPECIFIED = frozenset({"action", "content", "_meta"})


def defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The default values a form declares, by field name."""
    fields = schema.get("properties")
    if not isinstance(fields, dict):
        return {}
    declared = cast("dict[str, Any]", fields).items()
    return {
        name: field["default"] for name, field in declared if isinstance(field, dict) and "default" in field
    }


def fill(schema: Mapping[str, Any], content: Mapping[str, Any] | None) -> dict[str, Any]:
    """``content`` with the form's defaults for every field it leaves out."""
    return {**defaults(schema), **(content or {})}


def read_answer(answer: Any, schema: Mapping[str, Any] | None) -> ElicitResult:
    """Turn what a callback returned into the answer to send; ``schema`` is None for a URL.

    Raises:
        TypeError: the value is none of the accepted forms.
    """
    meta: Any = UNSET
    if isinstance(answer, ElicitResult):
        action, content, meta = answer.action, answer.content, answer.meta
    else:
        action, content = _split(answer, schema)
    if action != "accept" or schema is None:
        return ElicitResult(cast("ElicitAction", action), meta=meta)
    given = cast("dict[str, Any]", content) if isinstance(content, dict) else None
    return ElicitResult("accept", content=fill(schema, given), meta=meta)


def _split(answer: Any, schema: Mapping[str, Any] | None) -> tuple[str, Any]:
    if answer is None:
        return "cancel", None
    if isinstance(answer, bool) and not _is_one_field(schema):
        return "accept" if answer else "decline", None
    if isinstance(answer, str) and answer in ACTIONS:
        return answer, None
    if isinstance(answer, Mapping):
        return _split_mapping(cast("Mapping[str, Any]", answer), schema)
    return "accept", _content(answer, schema)


def _split_mapping(answer: Mapping[str, Any], schema: Mapping[str, Any] | None) -> tuple[str, Any]:
    # A form may have a field called "action"; then only the presence of "content" tells the two apart.
    own_field = "action" in ((schema or {}).get("properties") or {})
    specified = answer.get("action") in ACTIONS and answer.keys() <= _SPECIFIED
    if specified and (not own_field or "content" in answer):
        return cast("str", answer["action"]), answer.get("content")
    return "accept", dict(answer)


def _content(value: Any, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    plain: Any = value.model_dump(mode="json") if isinstance(value, _Model) else msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return cast("dict[str, Any]", plain)
    fields = list((schema or {}).get("properties") or ())
    if len(fields) != 1:
        raise TypeError(
            f"on_elicit returned {type(value).__name__} for a form with {len(fields)} fields;"
            " return a dictionary, an ElicitResult, or one of accept, decline, cancel"
        )
    return {fields[0]: plain}


@runtime_checkable
class _Model(Protocol):
    """A pydantic model, without importing pydantic."""

    def model_dump(self, *, mode: str) -> Any: ...


def _is_one_field(schema: Mapping[str, Any] | None) -> bool:
    """A single boolean field: True and False are then its value, not the user's consent."""
    fields: Any = (schema or {}).get("properties")
    if not isinstance(fields, dict) or len(cast("dict[str, Any]", fields)) != 1:
        return False
    (field,) = cast("dict[str, Any]", fields).values()
    return isinstance(field, dict) and cast("dict[str, Any]", field).get("type") == "boolean"
