"""Reading the params of calls in all the shapes people write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ...errors import LocalProtocolError
from ...model import CompleteRequestParams, LoggingLevel, SetLevelRequestParams
from ...wire.methods import METHODS


def read_strings(arguments: Mapping[str, Any] | None) -> dict[str, str] | UnsetType:
    """The arguments of a prompt, which are strings on the wire: others are written as JSON."""
    if arguments is None:
        return UNSET
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in arguments.items()
    }


def read_level(level: str) -> SetLevelRequestParams:
    """The params of `logging/setLevel`.

    Raises:
        ValueError: there is no such level.
    """
    if level not in (levels := get_args(LoggingLevel)):
        raise ValueError(f"a log level is one of {', '.join(levels)}; not {level!r}")
    return SetLevelRequestParams(cast("LoggingLevel", level))


def read_params(
    method: str, params: Struct | Mapping[str, Any] | None, meta: Mapping[str, Any]
) -> Struct | Raw:
    """The params of any method; those nobody described go out as they are, with the connection's ``meta``.

    Raises:
        LocalProtocolError: they are not what the method takes.
    """
    if isinstance(params, Struct):
        return params
    given, row = dict(params or {}), METHODS.get(method)
    if row is None:
        return Raw(msgspec.json.encode({**given, "_meta": dict(meta)} if meta else given))
    try:
        return msgspec.convert(given, row.params)
    except msgspec.ValidationError as error:
        raise LocalProtocolError("invalid_params", f"{method}: {error}") from None


def read_reference(
    ref: Mapping[str, Any] | str | Struct,
    argument: Mapping[str, Any] | str | Struct,
    value: str | Mapping[str, Any] | None,
    context: Mapping[str, Any] | None,
) -> CompleteRequestParams:
    """The params of `completion/complete`.

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
