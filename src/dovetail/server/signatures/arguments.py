"""From the parameters of a function to the Struct that decodes them all at once, and to their schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import NODEFAULT, UNSET, Raw, UnsetType

from ...errors import RegistrationError
from ...model import PromptArgument
from . import custom_types as customs
from . import problems
from .parameters import MISSING, Parameter, Signature
from .problems import InvalidArguments, Problem
from .schemas import Node, Schemas, described

Members = dict[str, Raw]


def nodes_of(signature: Signature, schemas: Schemas) -> list[Node]:
    """Prepare every parameter.

    Raises:
        RegistrationError: naming the parameter that cannot be.
    """
    nodes: list[Node] = []
    for parameter in signature.parameters:
        try:
            nodes.append(schemas.prepare(Any if parameter.annotation is MISSING else parameter.annotation))
        except RegistrationError as error:
            raise RegistrationError(
                f"{signature.name!r}, parameter {parameter.name!r}: {error.message}"
            ) from error
    return nodes


def decoder(parameters: Sequence[Parameter], nodes: Sequence[Node]) -> Callable[[bytes | Raw], Any]:
    """Decodes a whole set of arguments, defaults included, in one call."""
    fields = [
        (p.name, node.type, customs.default_field(_default(p), p.factory, p.key))
        for p, node in zip(parameters, nodes, strict=True)
    ]
    struct = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(struct, dec_hook=customs.hook).decode


def input_schema(parameters: Sequence[Parameter], nodes: Sequence[Node], schemas: Schemas) -> dict[str, Any]:
    """The JSON Schema of the arguments as one object."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            p.wire_name: described(node.schema, p.description, _default(p))
            for p, node in zip(parameters, nodes, strict=True)
        },
    }
    required = [p.wire_name for p in parameters if p.required]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schemas.document(schema)


def members(arguments: Raw | UnsetType, name: str) -> Members:
    """The arguments one by one, still raw; absent and null are an empty object.

    Raises:
        InvalidArguments: they are no object at all.
    """
    if isinstance(arguments, UnsetType):
        return {}
    try:
        return msgspec.json.decode(arguments, type=Members | None) or {}
    except msgspec.ValidationError:
        raise no_object(name) from None
    except (ValueError, RecursionError):
        raise InvalidArguments(name, [Problem("", "the arguments cannot be read")]) from None


def no_object(name: str) -> InvalidArguments:
    """Not for the model to mend: the request itself is malformed, in every revision."""
    problem = Problem("", "the arguments must be an object")
    return InvalidArguments(name, [problem], kind="invalid_params")


def integral(found: Members) -> bytes:
    """The arguments with ``1.0`` written as ``1``: to JSON they are the same number."""
    return msgspec.json.encode(_without_fractions(msgspec.json.decode(msgspec.json.encode(found))))


def trial(raw: Raw, kind: Any, schema: Mapping[str, Any], name: str) -> list[Problem]:
    """What is wrong with one argument, if anything."""
    try:
        msgspec.json.decode(raw, type=kind, dec_hook=customs.hook)
    except RecursionError:
        return [Problem(name, "nests too deeply")]
    except ValueError as error:
        return [problems.read(str(error), schema, f".{name}")]
    return []


def from_text(text: str, kind: Any) -> Any:
    """A string as ``kind``: itself, a number or word that means one, or JSON for anything larger.

    Raises:
        ValueError: it is none of these; in msgspec's words.
    """
    if kind is str or kind is Any:
        return text
    try:
        return msgspec.convert(text, kind, strict=False, dec_hook=customs.hook)
    except ValueError as error:
        try:
            return msgspec.json.decode(text, type=kind, dec_hook=customs.hook)
        except msgspec.ValidationError as second:
            raise (second if text[:1] in ("{", "[") else error) from None
        except (ValueError, RecursionError):
            raise error from None


def prompt_argument(parameter: Parameter, schema: dict[str, Any]) -> PromptArgument:
    """How a prompt announces one of its blanks."""
    own: dict[str, Any] = schema["properties"][parameter.wire_name]
    words: str = own.get("description", "")
    if "$ref" in own or own.get("type") in ("object", "array"):
        words = f"{words} (JSON)".strip()
    return PromptArgument(
        parameter.wire_name,
        title=own.get("title", UNSET),
        description=words or UNSET,
        required=parameter.required,
    )


def _default(parameter: Parameter) -> Any:
    return NODEFAULT if parameter.default is MISSING else parameter.default


def _without_fractions(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_without_fractions(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {name: _without_fractions(item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value
