"""Questions to the user: what FastMCP takes for a form, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast, get_origin

from pydantic import TypeAdapter

from ...common.schemas import dereferenced
from ...mcp.server.elicitation import CancelledElicitation, DeclinedElicitation
from ...mcp.types.base import Closed

__all__ = [
    "AcceptedElicitation",
    "CancelledElicitation",
    "DeclinedElicitation",
    "Form",
    "ScalarElicitationType",
]

T = TypeVar("T")


class AcceptedElicitation(Closed, Generic[T]):
    """The user agreed, and this is what they filled in."""

    action: Literal["accept"] = "accept"
    data: T


@dataclass
class ScalarElicitationType(Generic[T]):
    """A form with one field."""

    value: T


class Form:
    """What a ``response_type`` asks for: a schema, and how an answer is read."""

    def __init__(self, response_type: Any, title: str | None = None, description: str | None = None) -> None:
        self._adapter: TypeAdapter[Any] | None = None
        self._scalar = False
        if response_type is None:
            self.schema: dict[str, Any] = {"type": "object", "properties": {}}
            return
        choices = _choices(response_type)
        if choices is not None:
            self._scalar = True
            self.schema = {"type": "object", "properties": {"value": choices}, "required": ["value"]}
        else:
            kind: Any = response_type
            if isinstance(response_type, list):
                kind = cast("Any", Literal)[tuple(cast("list[str]", response_type))]
            self._scalar = _is_scalar(kind)
            whole: Any = cast("Any", ScalarElicitationType)[kind] if self._scalar else kind
            self._adapter = TypeAdapter(whole)
            self.schema = dereferenced(self._adapter.json_schema())
            if self._scalar:
                self.schema["title"] = "ScalarElicitationType"
        words = {"title": title, "description": description}
        if self._scalar:
            self.schema["properties"]["value"] |= {name: text for name, text in words.items() if text}

    def read(self, content: Any) -> Any:
        """The answer as what was asked for."""
        value: Any = content or {}
        if self._adapter is not None:
            value = self._adapter.validate_python(value)
            return value.value if self._scalar else value
        return value.get("value") if self._scalar else value


def _choices(response_type: Any) -> dict[str, Any] | None:
    """The field of a choice that has titles, or of several choices; None for any other form."""
    if isinstance(response_type, dict):
        return {"type": "string", "oneOf": _titled(cast("dict[str, Any]", response_type))}
    items = cast("list[Any]", response_type) if isinstance(response_type, list) else []
    if len(items) == 1 and isinstance(items[0], list):
        return {"type": "array", "items": {"enum": items[0]}}
    if len(items) == 1 and isinstance(items[0], dict):
        return {"type": "array", "items": {"anyOf": _titled(cast("dict[str, Any]", items[0]))}}
    return None


def _titled(choices: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"const": name, "title": words.get("title", name)} for name, words in choices.items()]


def _is_scalar(kind: Any) -> bool:
    if kind in (str, int, float, bool) or get_origin(kind) is Literal:
        return True
    return TypeAdapter(kind).json_schema().get("type") != "object"
