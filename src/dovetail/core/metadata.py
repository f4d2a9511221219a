"""What a request says about itself in ``params._meta``: reading it, and refusing what is malformed.

Everything here looks at ``_meta`` alone, so that a request whose params are wrong is still told first what is
wrong with its envelope.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from ..errors import ProtocolError
from ..model import LoggingLevel
from ..model.meta import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROGRESS_TOKEN, PROTOCOL_VERSION
from ..wire.frames import UNREADABLE

LEVELS: Final[frozenset[str]] = frozenset(get_args(LoggingLevel))

_LOWEST, _HIGHEST = -(1 << 63), (1 << 64) - 1


class _Peek(Struct):
    meta: Any = field(default=UNSET, name="_meta")


_peek = msgspec.json.Decoder(_Peek).decode


def peek(params: Raw | UnsetType) -> dict[str, Any] | None:
    """The ``_meta`` object of params not yet decoded; None when there is none to read."""
    if params is UNSET:
        return None
    try:
        meta = _peek(params).meta
    except UNREADABLE:
        return None
    return cast("dict[str, Any]", meta) if isinstance(meta, dict) else None


def read(params: Raw | UnsetType) -> dict[str, Any]:
    """The ``_meta`` of a modern request.

    Raises:
        ProtocolError: of kind ``invalid_params``; its data lists the keys that are missing or of another
        type.
    """
    meta = peek(params)
    missing: list[str] = []
    if meta is None or type(meta.get(PROTOCOL_VERSION)) is not str:
        missing.append(PROTOCOL_VERSION)
    if meta is None or type(meta.get(CLIENT_CAPABILITIES)) is not dict:
        missing.append(CLIENT_CAPABILITIES)
    if meta is None or missing:
        names = " and ".join(f"{name} ({_TYPES[name]})" for name in missing)
        raise ProtocolError("invalid_params", f"params._meta needs {names}", data={"missing": missing})
    return meta


_TYPES: Final = {PROTOCOL_VERSION: "string", CLIENT_CAPABILITIES: "object"}


def problem(meta: Mapping[str, Any]) -> str | None:
    """What is wrong with the optional members, in words; None when nothing is."""
    token = meta.get(PROGRESS_TOKEN, "")
    if type(token) is not str and (type(token) is not int or not _LOWEST <= token <= _HIGHEST):
        return f"params._meta.{PROGRESS_TOKEN} must be a string or an integer"
    if type(meta.get(CLIENT_INFO, _NO_INFO)) is not dict:
        return f"params._meta.{CLIENT_INFO} must be an object"
    level = meta.get(LOG_LEVEL, "info")
    if type(level) is not str or level not in LEVELS:
        return f"params._meta.{LOG_LEVEL} must be one of {', '.join(get_args(LoggingLevel))}"
    return None


_NO_INFO: Final[dict[str, Any]] = {}


def check(meta: Mapping[str, Any]) -> None:
    """Refuse optional members of the wrong type.

    Raises:
        ProtocolError: of kind ``invalid_params``, naming the member.
    """
    fault = problem(meta)
    if fault is not None:
        raise ProtocolError("invalid_params", fault)
