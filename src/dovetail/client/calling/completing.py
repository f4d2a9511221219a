"""Reading the arguments of `Client.complete` in all the shapes people write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ...model import CompleteRequestParams


def read_reference(
    ref: Mapping[str, Any] | str | Struct,
    argument: Mapping[str, Any] | str | Struct,
    value: str | Mapping[str, Any] | None,
    context: Mapping[str, Any] | None,
) -> CompleteRequestParams:
    """Build the params of `completion/complete`.

    Raises:
        TypeError: the pieces are none of the accepted shapes.
    """
    if isinstance(value, Mapping):  # complete(ref, argument, context)
        value, context = None, value
    found: dict[str, Any] = {"ref": _reference(ref), "argument": _argument(argument, value)}
    if context is not None:
        found["context"] = context if "arguments" in context else {"arguments": dict(context)}
    try:
        return msgspec.convert(found, CompleteRequestParams)
    except msgspec.ValidationError as error:
        raise TypeError(f"complete: {error}") from None


def _reference(ref: Mapping[str, Any] | str | Struct) -> Any:
    if isinstance(ref, Struct):
        return msgspec.to_builtins(ref)
    if isinstance(ref, str):
        uri = ":" in ref and "/" in ref
        return {"type": "ref/resource", "uri": ref} if uri else {"type": "ref/prompt", "name": ref}
    return dict(ref)


def _argument(argument: Mapping[str, Any] | str | Struct, value: str | None) -> Any:
    if isinstance(argument, Struct):
        return msgspec.to_builtins(argument)
    if isinstance(argument, str):
        return {"name": argument, "value": value or ""}
    return dict(argument)
