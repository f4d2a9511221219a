"""Request metadata in ``params._meta``: read it, validate it, and write it.

This module reads only ``_meta``, so that a request with wrong params still gets the error about its metadata
first. It also decides which era a message belongs to (`is_modern`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field
from msgspec.structs import replace

from ..errors import NAME_ECHO, ProtocolError
from ..model import ClientCapabilities, LoggingLevel, RequestParams
from ..model.meta import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    FASTMCP,
    LOG_LEVEL,
    PROGRESS_TOKEN,
    PROTOCOL_VERSION,
    VERSION,
)
from ..wire.frames import INTEGERS, LONGEST_ID, UNREADABLE
from ..wire.methods import METHODS
from ..wire.revisions import BY_NAME, Revision

LEVELS: Final[frozenset[str]] = frozenset(get_args(LoggingLevel))

_NAMESPACE: Final = PROTOCOL_VERSION.partition("/")[0].encode()
"""Bytes that params with modern metadata contain, even if their slashes are escaped."""


class _MetaOnly(Struct):
    meta: Any = field(default=UNSET, name="_meta")


class _Keys(Struct):
    meta: dict[str, Raw] | UnsetType = field(default=UNSET, name="_meta")


_peek = msgspec.json.Decoder(_MetaOnly).decode
_keys = msgspec.json.Decoder(_Keys).decode


def is_modern(
    params: Raw | UnsetType, version: str | None = None, members: Mapping[str, Raw] | None = None
) -> bool:
    """Whether the rules of the modern era apply to a message. All era decisions are made here.

    ``version`` is the header ``MCP-Protocol-Version``, if there is one. A message is modern if its body has
    modern metadata, or if the header names no legacy revision (an unknown one gets the list of supported
    revisions). ``members`` are the members of ``params`` if they are known.
    """
    if version is not None:
        revision = BY_NAME.get(version)
        if revision is None or revision.modern:
            return True
    if params is UNSET or (members is not None and "_meta" not in members):
        return False
    data = bytes(params)
    if _NAMESPACE not in data and b"\\u" not in data:  # skips decoding for most legacy messages
        return False
    meta = peek(params)
    return meta is not None and PROTOCOL_VERSION in meta


def peek(params: Raw | UnsetType) -> Mapping[str, Any] | None:
    """Return the ``_meta`` object of undecoded params, or None without one.

    If a number in it exceeds the range of floats, the keys are decoded and the values stay raw.
    """
    if params is UNSET:
        return None
    try:
        meta = _peek(params).meta
    except UNREADABLE:
        return _peek_keys(params)
    return cast("dict[str, Any]", meta) if isinstance(meta, dict) else None


def _peek_keys(params: Raw) -> dict[str, Raw] | None:
    try:
        meta = _keys(params).meta
    except UNREADABLE:
        return None
    return None if meta is UNSET else meta


def read(params: Raw | UnsetType) -> dict[str, Any]:
    """Return the ``_meta`` of a modern request.

    Raises:
        ProtocolError: of kind ``invalid_params``; its data lists the keys that are missing or have the wrong
            type.
    """
    meta = peek(params)
    if meta is not None and Raw in map(type, meta.values()):
        raise _out_of_range(meta)
    missing: list[str] = []
    if meta is None or type(meta.get(PROTOCOL_VERSION)) is not str:
        missing.append(PROTOCOL_VERSION)
    if meta is None or type(meta.get(CLIENT_CAPABILITIES)) is not dict:
        missing.append(CLIENT_CAPABILITIES)
    if meta is None or missing:
        names = " and ".join(f"{name} ({_TYPES[name]})" for name in missing)
        raise ProtocolError("invalid_params", f"params._meta needs {names}", data={"missing": missing})
    return cast("dict[str, Any]", meta)


def _out_of_range(meta: Mapping[str, Raw]) -> ProtocolError:
    """Return the error for the member that `peek` could not decode."""
    for name, value in meta.items():
        try:
            msgspec.json.decode(value)
        except UNREADABLE:
            return ProtocolError(
                "invalid_params", f"params._meta.{name[:NAME_ECHO]} has a number that is out of range"
            )
    return ProtocolError("invalid_params")  # unreachable: one member failed to decode


_TYPES: Final = {PROTOCOL_VERSION: "string", CLIENT_CAPABILITIES: "object"}


def problem(meta: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the optional members, or None."""
    token = meta.get(PROGRESS_TOKEN, "")
    if type(token) is not str and (type(token) is not int or token not in INTEGERS):
        return f"params._meta.{PROGRESS_TOKEN} must be a string or an integer"
    if type(token) is str and len(token) > LONGEST_ID:
        return f"params._meta.{PROGRESS_TOKEN} is longer than {LONGEST_ID} characters"
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


def require(what: str, path: str, declared: ClientCapabilities) -> None:
    """Require a capability that this request must declare.

    Raises:
        ProtocolError: of kind ``missing_required_client_capability``.
    """
    if not declared.has(path):
        raise ProtocolError(
            "missing_required_client_capability",
            f"{what} needs the client capability {path}",
            data={"requiredCapabilities": ClientCapabilities.requiring(path)},
        )


# --- writing ------------------------------------------------------------------------------------------------


def modern_meta(
    revision: Revision, capabilities: Mapping[str, Any], client_info: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Build the ``_meta`` of every modern request."""
    meta: dict[str, Any] = {PROTOCOL_VERSION: revision.name, CLIENT_CAPABILITIES: dict(capabilities)}
    if client_info is not None:
        meta[CLIENT_INFO] = dict(client_info)
    return meta


def tool_version_meta(version: str) -> dict[str, Any]:
    """Build the ``_meta`` of a call to one version of a tool, understood by Dovetail and FastMCP."""
    return {VERSION: version, FASTMCP: {"version": version}}


def with_meta(method: str, params: Struct | Raw | None, meta: dict[str, Any]) -> Struct | Raw | None:
    """Return the params of ``method`` with this metadata. Raw params are returned unchanged."""
    if isinstance(params, Raw):
        return params
    if params is None:
        row = METHODS.get(method)
        return (RequestParams if row is None else row.params)(meta=meta)
    return replace(params, meta=meta)
