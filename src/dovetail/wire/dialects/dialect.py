"""A dialect as data: tables and flags that describe how another MCP implementation differs.

Inbound, every dialect accepts every alias (`aliases.py`); `without_aliases` removes them. Outbound, a dialect
changes legacy revisions only. On 2026-07-28 names, shapes and codes are those of the specification, and the
dialect's own error code is sent as ``error.data.dialectCode``.

The codec applies the tables. It decodes a member typed. Only if an alias of the method matches the raw bytes
(all its needles occur), or if the typed decode failed, does it `rewrite` the bytes and decode again. So a
message without aliases costs a few substring searches. `wire_error` and `error_from_wire` convert errors in
both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from ...errors import (
    KINDS,
    LATER,
    MESSAGE_REFUSALS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    REFUSAL_CODES,
    URL_ELICITATION_REQUIRED,
    CapabilityError,
    DovetailError,
    Kind,
    ProtocolError,
    Refusal,
    ToolError,
    http_status,
    kind_of_code,
)
from ...lazy_pattern import lazy_pattern
from ...model import ClientCapabilities
from ...settings import Limits, Timeouts
from ...shapes import Object, is_object
from ..revisions import Revision

VENDOR = "dovetail/"
REASON = VENDOR + "reason"
"""Prefix of vendor ``_meta`` keys, for dialect values without an official member."""


class Alias(Struct, frozen=True):
    """One alternative spelling that a peer may use."""

    edit: Callable[[Object], None]
    """Converts the decoded object to the canonical form, in place. Ignores what it does not know."""
    needles: tuple[bytes, ...] = ()
    """The edit runs if all of these occur in the raw bytes. Empty: only after the typed decode failed."""
    unless: bytes = b""
    """The edit does not run if this occurs: the official spelling that shares the needle."""
    probe: Callable[[bytes], bool] | None = None
    """The edit runs only if this returns True; for spellings that differ in structure only."""

    def matches(self, raw: bytes) -> bool:
        """Whether ``raw`` may use this alias although it decodes without it."""
        for needle in self.needles:
            if needle not in raw:
                return False
        if not self.needles or (self.unless and self.unless in raw):
            return False
        return self.probe is None or self.probe(raw)


class Dialect(Struct, frozen=True, kw_only=True, eq=False):
    """One dialect. The codec reads the tables; the flags are read by the code they configure."""

    name: str

    # --- format ---------------------------------------------------------------------------------------------
    inbound_methods: Mapping[str, str] = {}
    """Alias → method of the specification, on every revision."""
    outbound_methods: Mapping[str, str] = {}
    """Method of the specification → name to send. Legacy revisions only."""
    field_in: Mapping[str, tuple[Alias, ...]] = {}
    """Method → aliases in its params."""
    result_in: Mapping[str, tuple[Alias, ...]] = {}
    """Method → aliases in its result."""
    field_out: Mapping[str, Callable[[Object], Object]] = {}
    """Name of a model type, or of a method for its params → edit of the builtins to send. Legacy only."""

    # --- errors ---------------------------------------------------------------------------------------------
    errors: Mapping[str, int] = {}
    """Kind → code on the legacy revisions; kinds that are missing use the official code."""
    messages: Mapping[str, str] = {}
    """Kind → message that replaces Dovetail's; ``{member}`` is filled from the error's data."""
    error_data: Mapping[str, Callable[[str, Any], Any]] = {}
    """Kind → edit of ``data``, given the message and the data (UNSET if absent). Legacy only."""
    http_status: Mapping[int, int] = {}
    """Code → HTTP status; see `status_of`."""

    # --- features -------------------------------------------------------------------------------------------
    methods: frozenset[str] = frozenset()
    """Methods of this dialect only, on every revision. Peers of other dialects may not call them."""
    older: frozenset[str] = frozenset()
    """Methods that every legacy revision has in this dialect, though officially only later revisions do."""
    limits: Limits | None = None
    timeouts: Timeouts | None = None
    config_keys: Mapping[str, tuple[str, tuple[str, ...]]] = {}
    """Documented setting name → transport ("http" for all HTTP transports), members of `Limits`."""
    limits_both_ways: bool = False
    """Messages that are too large to be accepted are too large to be sent as well."""
    versions: tuple[str, ...] = ()
    """The only revisions a client of this profile accepts; empty: all."""
    client_capabilities: Mapping[str, Any] = {}
    """Capabilities that a client declares by default."""
    server_capabilities: Mapping[str, Mapping[str, Any]] = {}
    """Members added to a declared server capability, whatever is registered. Legacy revisions only."""

    # --- strictness -----------------------------------------------------------------------------------------
    strict: bool = False
    """No alias is accepted."""
    batches_on_legacy: bool = False
    """Batches are served on every legacy revision, not only on 2025-03-26 (never with ``initialize``)."""
    null_error_id: bool = False
    """Every legacy revision sends ``"id": null`` in an error without a readable id."""
    anonymous_encoding_errors: bool = False
    """The error for a message that is not UTF-8 has no id, even if one is readable. Legacy revisions only."""
    drop_malformed_answers: bool = False
    """A malformed response is counted and dropped, and its request waits for a valid one."""
    tool_failure_as_error: bool = False
    """A failed tool returns a JSON-RPC error and not ``isError``; a cancelled one fails with
    ``tool_cancelled``.

    Legacy revisions only.
    """
    argument_errors: Literal["error", "tool_result"] | None = None
    """How invalid tool arguments are reported, if not as the revision defines. Legacy revisions only."""
    intersect_capabilities: bool = False
    """Offer only features that the client listed, if it listed any of resources, tools, prompts, logging."""
    refuse_page_size: bool = False
    """An invalid or too large ``limit``, or an invalid ``offset``, is an error and not ignored."""
    subscription_failures: bool = False
    """Subscribing to a missing resource, or exceeding the limit, fails with ``subscription_failed``."""
    initialized_first: bool = False
    """Requests before ``notifications/initialized`` are refused; see `phases.check`."""
    refuse_responses: bool = False
    """A response that arrives over HTTP is always an invalid request."""
    long_description_is_error: bool = False
    """A tool without a description or with more than 10 000 characters cannot be registered."""
    json_as_plain_text: bool = False
    """A resource that returns an object without a media type is ``text/plain``, not ``application/json``."""
    system_role: bool = False
    """Prompt messages may keep the role ``system``; elsewhere it is sent as ``user``."""
    client_may_sample: bool = False
    """``sampling/createMessage`` may go from the client to the server."""

    def denies(self, capability: str | None) -> bool:
        """Whether a server never declares this capability (``resources.subscribe``), whatever is registered."""
        name, _, member = (capability or "").partition(".")
        return self.server_capabilities.get(name, {}).get(member) is False


def limits_of(dialect: Dialect, limits: Limits | None) -> Limits:
    """Return the given limits, else those of the dialect."""
    limits = limits or dialect.limits or Limits()
    if dialect.limits_both_ways and limits.max_response_bytes is None:
        return msgspec.structs.replace(limits, max_response_bytes=limits.max_message_bytes)
    return limits


def rewrite(aliases: tuple[Alias, ...], raw: bytes | Raw) -> bytes:
    """Convert an object to canonical form. Values other than objects are returned unchanged.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: the bytes are not JSON.
    """
    members: Any = msgspec.json.decode(raw)
    if not is_object(members):
        return bytes(raw)
    for edit in dict.fromkeys(alias.edit for alias in aliases):
        edit(members)
    return msgspec.json.encode(members)


def without_aliases(dialect: Dialect) -> Dialect:
    """Copy the dialect without its aliases."""
    return msgspec.structs.replace(dialect, strict=True, inbound_methods={}, field_in={}, result_in={})


def column(pick: Callable[[Kind], int | None]) -> dict[str, int]:
    """Map kinds to codes from one column of `KINDS`, where the column has a code."""
    return {name: code for name, row in KINDS.items() if (code := pick(row)) is not None}


def extra(members: Object, name: str, value: Any) -> None:
    """Preserve a value without an official member under a vendor ``_meta`` key."""
    meta = members.get("_meta")
    if not is_object(meta):
        meta = members["_meta"] = Object()
    meta.setdefault(VENDOR + name, value)


def pop_extra(members: Object, name: str) -> Any:
    """Remove and return what `extra` preserved; UNSET if there is nothing."""
    meta = members.get("_meta")
    if not is_object(meta):
        return UNSET
    value = meta.pop(VENDOR + name, UNSET)
    if not meta:
        del members["_meta"]
    return value


def restore(members: Object, name: str) -> None:
    """Restore the member that `extra` preserved, if any."""
    value = pop_extra(members, name)
    if value is not UNSET:
        members[name] = value


# --- errors -------------------------------------------------------------------------------------------------

_MODERN_CODES = frozenset(range(-32027, -32019))
"""Codes of the reserved range that 2026-07-28 defines, and those of the events extension (SEP-3415)."""
_RESERVED = range(-32099, -31999)
_ENVELOPE = frozenset({"parse_error", "invalid_encoding", "invalid_request", "message_too_large"})
_REFUSED = frozenset(
    row.name
    for row in KINDS.values()
    if row.refusal is not None and row.delivery != "http" and row.status not in LATER
)
"""Errors of a handler.

The message itself was valid, and a bare 4xx would be read as "not a modern server".
"""
_KIND = lazy_pattern(r"[a-z][a-z0-9_]{0,63}")


def wire_error(error: DovetailError, revision: Revision, dialect: Dialect) -> tuple[int, str, Any]:
    """Return code, message and data (UNSET if absent) of ``error`` on this revision.

    ``data.kind`` is always set unless ``data`` is not an object. Messages of internal errors (lost upstreams,
    invalid states) are replaced by the generic message of the kind.
    """
    kind, chosen, message, data = _error_parts(error, revision)
    own: int | None = None
    if revision.modern:
        if chosen is None:
            own = dialect.errors.get(kind)
        elif chosen in _RESERVED and chosen not in _MODERN_CODES:
            own, chosen = chosen, None
    elif chosen is None:
        chosen = dialect.errors.get(kind)
        message, data = _in_dialect(kind, message, data, dialect)
    code = _official(kind, revision) if chosen is None else chosen
    if data is UNSET or type(data) is dict:
        data = _with_kind(data, kind, code, own)
    return code, message, data


def status_of(error: DovetailError, revision: Revision, dialect: Dialect) -> int:
    """Return the HTTP status of a request that fails with ``error`` before anything was streamed."""
    if revision.modern and isinstance(error, CapabilityError):
        return 400  # sent as -32021
    if error.kind == "insufficient_permissions":
        return 403  # a client of any era can request further scopes and retry
    status = 200  # legacy clients may not read the body of another status
    if error.kind not in _REFUSED and (revision.modern or error.kind in _ENVELOPE):
        status = http_status(error.kind)
    # Refusals of the envelope checks stay 400: 2026-07-28 requires it, and MiniMCP does the same.
    if status == 400 or not dialect.http_status:
        return status
    return dialect.http_status.get(wire_error(error, revision, dialect)[0], status)


def error_from_wire(
    code: int, message: str, data: Any, revision: Revision, dialect: Dialect
) -> ProtocolError | Refusal:
    """Convert a received error object to the exception to raise.

    ``data.kind`` takes precedence over the code: -32001 … -32007 have different meanings in different
    systems.
    """
    members = data if is_object(data) else {}
    kind = members.get("kind")
    if not isinstance(kind, str) or _KIND.fullmatch(kind) is None:
        kind = kind_of_code(code, modern=revision.modern, dialect=dialect.name)
    if code not in REFUSAL_CODES:
        return ProtocolError(kind, message, data=data, code=code)
    hint = members.get("hint")
    error = Refusal(code, hint if isinstance(hint, str) else None, message=message, kind=kind)
    error.retry_after = ProtocolError(kind, data=data, code=code).retry_after
    return error


def _error_parts(error: DovetailError, revision: Revision) -> tuple[str, int | None, str, Any]:
    """Return kind, code (if set explicitly), message and data."""
    if isinstance(error, ProtocolError):
        return error.kind, error.given_code, error.message, error.data
    if isinstance(error, Refusal):
        return error.kind, error.code, error.message, _refusal_data(error)
    if isinstance(error, ToolError):
        return error.kind, None, error.message, UNSET if error.data is None else error.data
    if isinstance(error, CapabilityError):
        if not revision.modern:
            return error.kind, None, error.message, {"capability": error.capability}
        kind = "missing_required_client_capability"
        data = {"requiredCapabilities": ClientCapabilities.requiring(error.capability)}
        return kind, MISSING_REQUIRED_CLIENT_CAPABILITY, error.message, data
    row = KINDS.get(error.kind)
    return error.kind, None, "Internal error" if row is None else row.message, UNSET


def _refusal_data(error: Refusal) -> Object:
    data: Object = {}
    if error.hint is not None:
        data["hint"] = error.hint
    if error.retry_after is not None:
        data["retryAfterMs"] = round(error.retry_after * 1000)
    return data


def _in_dialect(kind: str, message: str, data: Any, dialect: Dialect) -> tuple[str, Any]:
    edit = dialect.error_data.get(kind)
    said = message
    members = data if is_object(data) else {}
    try:
        if (text := dialect.messages.get(kind)) is not None:
            said = text.format_map(members)
    except KeyError:
        pass  # the error lacks the data that the message needs; the generic message is used
    return said, cast("Any", data) if edit is None else edit(message, data)


def _official(kind: str, revision: Revision) -> int:
    row = KINDS.get(kind) or KINDS["internal_error"]
    code = row.modern if revision.modern else row.legacy
    return row.modern if code == URL_ELICITATION_REQUIRED and not revision.url_error else code


def _with_kind(data: Any, kind: str, code: int, own: int | None) -> Object:
    members: Object = {} if data is UNSET else dict(data)
    members.setdefault("kind", kind)
    if code in REFUSAL_CODES:
        members["refusal"] = True
    elif kind in MESSAGE_REFUSALS:
        members["refusalCode"] = MESSAGE_REFUSALS[kind]
    if own is not None and own != code:
        members["dialectCode"] = own
    return members
