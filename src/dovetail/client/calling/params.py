"""Conversion of call parameters from the forms that callers use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ...errors import LocalProtocolError, RegistrationError
from ...model import CompleteRequestParams, LoggingLevel, SetLevelRequestParams
from ...wire.methods import METHODS, NOT_REMOVED, CustomParams, Method, Reader


def read_strings(arguments: Mapping[str, Any] | None) -> dict[str, str] | UnsetType:
    """Return the arguments of a prompt. They are strings; other values are converted to JSON."""
    if arguments is None:
        return UNSET
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in arguments.items()
    }


def read_level(level: str) -> SetLevelRequestParams:
    """Return the params of `logging/setLevel`.

    Raises:
        ValueError: the level is unknown.
    """
    if level not in (levels := get_args(LoggingLevel)):
        raise ValueError(f"a log level is one of {', '.join(levels)}; not {level!r}")
    return SetLevelRequestParams(cast("LoggingLevel", level))


def read_params(method: str, params: Any) -> Struct:
    """Return the params of any method: typed for protocol methods, else a JSON object or array.

    Raises:
        LocalProtocolError: they are not valid for the method.
    """
    row = METHODS.get(method)
    given: Any = {} if params is None else params
    try:
        if row is None:
            return CustomParams.split(msgspec.json.encode(given))
        if isinstance(given, Struct):
            return given
        # Through JSON: raw values such as arguments must be encoded first.
        return msgspec.json.decode(msgspec.json.encode(given), type=row.params)
    except (msgspec.ValidationError, TypeError) as error:
        raise LocalProtocolError("invalid_params", f"{method}: {error}") from None


def unknown_params(method: str, params: Any, read: Struct) -> Raw | None:
    """Return the original params if the decoded ``read`` lacks some of their members."""
    if method not in METHODS or params is None or isinstance(params, Struct):
        return None
    from ...wire.unknown_fields import has_unknown  # imported only if needed

    given = Raw(msgspec.json.encode(params))
    return given if has_unknown(type(read), given) else None


def _open_members(raw: bytes | Raw) -> dict[str, Any] | list[Any]:
    """Return the extension members of a result or notification of any revision; params may be an array."""
    members: dict[str, Any] | list[Any] = msgspec.json.decode(raw, type=dict[str, Any] | list[Any])
    if not isinstance(members, dict):
        return members
    return {name: value for name, value in members.items() if name not in ("_meta", "resultType")}


_OPEN = Reader(_open_members)


def own_method(name: str, result: Any, capability: str | None) -> Method | None:
    """Return the description of an extension method; None for protocol methods."""
    if name in METHODS:
        return None
    return Method(
        name=name,
        kind="request",
        sender="client",
        since=1,
        until=NOT_REMOVED,
        params=CustomParams,
        result=_OPEN if result is None else result,
        capability=capability,
        may_request_input=True,
    )


def own_notification(name: str, params: Any) -> Method:
    """Return the description of an extension notification.

    Raises:
        RegistrationError: it is a notification of the protocol.
    """
    if name in METHODS:
        raise RegistrationError(f"{name!r} is a notification of the protocol: the client receives it already")
    kind = _OPEN if params is None else params
    return Method(name=name, kind="notification", sender="server", since=1, until=NOT_REMOVED, params=kind)


def read_reference(
    ref: Mapping[str, Any] | str | Struct,
    argument: Mapping[str, Any] | str | Struct,
    value: str | Mapping[str, Any] | None,
    context: Mapping[str, Any] | None,
) -> CompleteRequestParams:
    """Return the params of `completion/complete`.

    Raises:
        TypeError: the arguments have no accepted form.
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
