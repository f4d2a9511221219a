"""Elicitation results: conversion of callback results, and default values of forms.

A callback may return the typed `ElicitResult`, its dictionary (``{"action", "content"}``), one of "accept",
"decline" and "cancel", a bool, or the content: a dictionary, an object with fields, or the value of a form
with one field.
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
    """Return the default values of a form by field name."""
    fields = schema.get("properties")
    if not isinstance(fields, dict):
        return {}
    declared = cast("dict[str, Any]", fields).items()
    return {
        name: field["default"] for name, field in declared if isinstance(field, dict) and "default" in field
    }


def fill(schema: Mapping[str, Any], content: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return ``content`` with default values for missing fields."""
    return {**defaults(schema), **(content or {})}


def read_answer(answer: Any, schema: Mapping[str, Any] | None) -> ElicitResult:
    """Convert the result of a callback; ``schema`` is None for URL elicitation.

    Raises:
        TypeError: the value has no accepted form.
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
    # A form may have a field named "action"; then "content" distinguishes the two forms.
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
    """Return whether the form has a single boolean field: True and False are then its value, not the consent."""
    fields: Any = (schema or {}).get("properties")
    if not isinstance(fields, dict) or len(cast("dict[str, Any]", fields)) != 1:
        return False
    (field,) = cast("dict[str, Any]", fields).values()
    return isinstance(field, dict) and cast("dict[str, Any]", field).get("type") == "boolean"
