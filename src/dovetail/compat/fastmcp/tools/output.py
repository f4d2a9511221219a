"""The output schema that a return annotation means."""

from __future__ import annotations

import inspect
import typing
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUserError

from ...common.blocks import blocks
from ...common.media import Audio, File, Image
from ...common.schemas import dereferenced, without_titles
from ...common.signatures import kinds_in
from ..generation import generation
from .base import WRAPPED, ToolResult

_MEDIA: Final = (Image, Audio, File, ToolResult)
_WRAPPER: Final = "Generic wrapper for non-object return types."


def output_schema(annotation: Any, *, whole: bool = True) -> dict[str, Any] | None:
    """The schema of what a tool with this return annotation returns; None where there is none to tell.

    ``whole`` puts what is referred to in its place.
    """
    if annotation in (inspect.Parameter.empty, None, type(None), Any, ...) or _is_content(annotation):
        return None
    if annotation is bytes and generation() == 3:
        return None
    try:
        schema = TypeAdapter(annotation).json_schema(mode="serialization")
    except (PydanticUserError, TypeError, ValueError, NameError):
        return None
    schema = without_titles(schema, bare=generation() == 3)
    schema = dereferenced(schema) if whole else schema
    if schema.get("type") == "object" or "properties" in schema or _refers_to_object(schema):
        return schema
    definitions = schema.pop("$defs", None)
    wrapped: dict[str, Any] = {
        "type": "object", "properties": {"result": schema}, "required": ["result"], WRAPPED: True,
    }  # fmt: skip
    if generation() == 2:
        wrapped["description"] = _WRAPPER
    if definitions is not None:
        wrapped["$defs"] = definitions
    return wrapped


def _refers_to_object(schema: dict[str, Any]) -> bool:
    """The root is a reference: written out there, since clients want to see an object."""
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    target = schema.get("$defs", {}).get(name)
    if target is None or target.get("type") != "object":
        return False
    schema.pop("$ref")
    schema.update(target)
    return True


def _is_content(annotation: Any) -> bool:
    """Content blocks, media and whole results have no schema, nor have lists and unions with them."""
    for kind in kinds_in(annotation):
        if isinstance(kind, type) and (
            issubclass(kind, _MEDIA) or (issubclass(kind, BaseModel) and issubclass(kind, blocks()))
        ):
            return True
    return any(_is_content(part) for part in typing.get_args(annotation) if part is not ...)
