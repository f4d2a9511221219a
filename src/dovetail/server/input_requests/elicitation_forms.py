"""Elicitation forms: the flat schema made from a type, and the answer decoded as that type.

The specification allows one level of fields: text, numbers, booleans, a choice, several choices. A scalar
type, a ``Literal`` or a list of choices becomes a form with the single field ``value``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NoReturn, cast

import msgspec
from msgspec import Struct

from ...errors import RegistrationError
from ...json_schema.merging import merged
from ...json_schema.references import Schema
from ..signatures.annotation_schemas import Schemas
from ..signatures.custom_types import hook
from ..signatures.plain_types import encode

FORMS_KEPT: Final = 256
"""Types whose elicitation form is cached."""


FIELD: Final = "value"
"""The name of the only field when the type is not an object."""

_TEXT: Final = frozenset({"title", "description", "default"})
_KEYWORDS: Final[dict[str, frozenset[str]]] = {
    "string": _TEXT | {"minLength", "maxLength", "format", "enum", "enumNames", "oneOf"},
    "number": _TEXT | {"minimum", "maximum"},
    "integer": _TEXT | {"minimum", "maximum"},
    "boolean": _TEXT,
    "array": _TEXT | {"minItems", "maxItems", "items"},
}
"""Keywords that each kind of field may use in a form. The server checks all others when the answer arrives."""
_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})


class Form(Struct, frozen=True, eq=False):
    """A schema to send, and the decoder of the content that is received."""

    schema: dict[str, Any]
    read: Callable[[dict[str, Any]], Any]
    """Raises a `ValueError` (msgspec's, or the type's own) for content that does not fit."""


def form_of(kind: Any) -> Form:
    """The form for ``kind``: a type, a raw JSON Schema, a list of choices, or None for plain consent.

    Raises:
        TypeError: it does not fit into one level of fields; the message names the field.
    """
    if isinstance(kind, type):
        return _form_of_type(kind)
    if kind is None:
        return Form({"type": "object", "properties": {}}, dict[str, Any])
    if isinstance(kind, Mapping):
        return Form(dict(cast("Mapping[str, Any]", kind)), dict[str, Any])
    if isinstance(kind, list | tuple):
        kind = Literal[tuple(cast("list[str]", kind))]
    try:
        hash(kind)
    except TypeError:  # metadata of an Annotated may be anything
        return _form_of_type.__wrapped__(kind)
    return _form_of_type(kind)


@functools.lru_cache(maxsize=FORMS_KEPT)
def _form_of_type(kind: Any) -> Form:
    schemas = Schemas()
    try:
        node = schemas.prepare(kind)
    except RegistrationError as error:
        raise TypeError(f"{kind!r} cannot be an elicitation form: {error.message}") from None
    root = schemas.document(node.schema)
    # Not strict, as in pydantic: clients often fill in forms as text. `msgspec.convert` would take three times as long.
    decode = msgspec.json.Decoder(node.type, strict=False, dec_hook=hook).decode
    read: Callable[[Any], Any] = getattr(kind, "model_validate", None) or (
        lambda value: decode(encode(value))
    )
    if "properties" in root:
        return Form(_flat(root, root), read)
    flat = _flat({"type": "object", "properties": {FIELD: root}, "required": [FIELD]}, root)
    return Form(flat, lambda content: read(content[FIELD]) if FIELD in content else _missing())


def _missing() -> NoReturn:
    raise msgspec.ValidationError(f"Object missing required field `{FIELD}`")


def _flat(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """``schema`` as a form; its references point into ``root``."""
    required = set(schema.get("required", ()))
    fields: dict[str, Any] = {}
    for name, field in schema.get("properties", {}).items():
        field, optional = _without_null(merged(field, root), root)
        fields[name] = _primitive(name, field, root)
        if optional or "default" in field:
            required.discard(name)
    form: dict[str, Any] = {"type": "object", "properties": fields}
    if required:
        form["required"] = [name for name in fields if name in required]
    return form


def _without_null(field: Schema, root: dict[str, Any]) -> tuple[Schema, bool]:
    options = field.get("anyOf")
    if not options:
        return field, False
    kept = [option for option in options if option.get("type") != "null"]
    if len(kept) != 1 or len(kept) == len(options):
        return field, False
    beside = {key: value for key, value in field.items() if key != "anyOf"}
    if beside.get("default", 0) is None:
        del beside["default"]
    return {**merged(kept[0], root), **beside}, True


def _primitive(name: str, field: Schema, root: dict[str, Any]) -> dict[str, Any]:
    if "const" in field:
        field = {**field, "enum": [field["const"]]}
    choices = field.get("enum")
    kind = field.get("type", "string" if choices else None)
    if kind not in _KEYWORDS or (choices and not all(isinstance(choice, str) for choice in choices)):
        raise TypeError(
            f"the field {name!r} does not fit into a form: use text, numbers, booleans, a choice of strings,"
            " or a list of such choices"
        )
    flat = {"type": kind, **{key: value for key, value in field.items() if key in _KEYWORDS[kind]}}
    if kind == "string" and flat.get("format") not in _FORMATS:
        flat.pop("format", None)
    if kind == "array":
        flat["items"] = _choices(name, merged(field.get("items") or {}, root))
    return flat


def _choices(name: str, items: Schema) -> dict[str, Any]:
    if "const" in items:
        items = {"enum": [items["const"]]}
    if "anyOf" in items or "oneOf" in items:
        return {"anyOf": items.get("anyOf") or items["oneOf"]}
    if not items.get("enum"):
        raise TypeError(
            f"the field {name!r} does not fit into a form: a list must offer its choices (Literal or Enum)"
        )
    return {"type": "string", "enum": items["enum"]}
