"""Support for pydantic models, without importing pydantic.

An author who uses a pydantic type has imported pydantic. This module finds it in ``sys.modules``, so a server without
pydantic models does not pay for it.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable
from typing import Any, cast

import msgspec

from ...errors import RegistrationError


def module() -> Any:
    """The pydantic module, or None if it is not imported."""
    return sys.modules.get("pydantic")


def is_foreign(annotation: Any) -> bool:
    """Whether pydantic must validate ``annotation`` itself (not only something inside it)."""
    pydantic = module()
    if pydantic is None or not isinstance(annotation, type):
        return False
    if issubclass(annotation, pydantic.BaseModel):
        return True
    if dataclasses.is_dataclass(annotation):
        return "__pydantic_validator__" in vars(annotation)
    return cast("Any", annotation).__module__.partition(".")[0] == "pydantic"


def is_field(value: Any) -> bool:
    """Whether ``value`` was created by ``pydantic.Field(...)``."""
    kind = cast("type[Any]", type(value))
    return kind.__name__ == "FieldInfo" and kind.__module__.startswith("pydantic.")


def field_of(annotation: Any) -> Any:
    """The last ``pydantic.Field`` in the metadata of ``annotation``, or None."""
    if typing.get_origin(annotation) is not typing.Annotated:
        return None
    return next((item for item in reversed(annotation.__metadata__) if is_field(item)), None)


def default_of(field: Any, missing: Any) -> tuple[Any, Callable[[], Any] | None]:
    """The default of a ``pydantic.Field`` and its factory; ``missing`` where it has neither."""
    if field.default_factory is not None:
        return missing, field.default_factory
    undefined = type(field.default).__name__ == "PydanticUndefinedType" or field.default is ...
    return (missing if undefined else field.default), None


_CHANGES = ("strip_whitespace", "to_upper", "to_lower", "ascii_only")
"""The features of ``StringConstraints`` that change the value."""


def needs_pydantic(metadata: Any) -> bool:
    """Whether this ``Annotated`` metadata runs pydantic code: validators, serializers."""
    name = type(metadata).__name__
    if not type(metadata).__module__.startswith("pydantic"):
        return False
    if name == "StringConstraints":
        return any(getattr(metadata, change, None) for change in _CHANGES)
    if name == "FieldInfo":
        return metadata.discriminator is not None
    # pydantic keeps pattern and similar constraints in a private class
    return name != "PydanticGeneralMetadata" or bool(
        cast("Any", vars(metadata)).keys() - {"pattern", "strict"}
    )


class Adapter:
    """A pydantic ``TypeAdapter`` that raises Dovetail's errors."""

    def __init__(self, annotation: Any) -> None:
        pydantic = module()
        try:
            self._adapter: Any = pydantic.TypeAdapter(annotation)
        except Exception as error:
            raise RegistrationError(f"pydantic cannot use {annotation!r}: {_first_line(error)}") from error
        self._error: type[Exception] = pydantic.ValidationError

    def schema(self, mode: typing.Literal["validation", "serialization"]) -> dict[str, Any]:
        """The JSON Schema, with its ``$defs``. Raises RegistrationError if pydantic cannot create it."""
        try:
            return self._adapter.json_schema(mode=mode)
        except Exception as error:
            raise RegistrationError(_first_line(error)) from error

    def decode(self, value: Any) -> Any:
        """Validate plain JSON values. Strict, as everywhere: a string is never converted to a number.

        Raises:
            ValueError: with path and reason, without the value.
        """
        try:
            return self._adapter.validate_json(msgspec.json.encode(value), strict=True)
        except self._error as error:
            raise ValueError(reason(error)) from None

    def encode(self, value: Any) -> bytes:
        """Check a returned value and write it as JSON."""
        try:
            checked = self._adapter.validate_python(value)
        except self._error as error:
            raise ValueError(reason(error)) from None
        return self._adapter.dump_json(checked, by_alias=True)


def reason(error: Any) -> str:
    """The first failure of a pydantic ``ValidationError``, with its path in msgspec's notation."""
    first = error.errors(include_url=False, include_input=False)[0]
    text: str = first["msg"]
    if first["type"] == "union_tag_invalid":
        text = f"Must be one of {first['ctx']['expected_tags']}"  # the original message contains the value
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    return f"{text} - at `${path}`" if path else text


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
