"""What a dialect is: tables and flags, never a branch in a handler.

Inbound, every dialect understands every alias (`aliases.py`); `strictly` takes them away. Outbound, a dialect
changes what is sent on the legacy revisions only: on 2026-07-28 names, shapes and codes are those of the
specification, and a dialect's own number travels in ``error.data.dialectCode``.

The codec applies the tables. To decode, it reads a member typed; only when an alias of that method claims the
raw bytes (all its needles occur), or when the typed decode failed, does it `rewrite` the bytes and decode
again, so a message that uses no alias pays a few substring searches at most. `wire_error` and
`error_from_wire` are the two directions of a failure.
"""

from __future__ import annotations

import re
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
from ...model import ClientCapabilities
from ...settings import Limits, Timeouts
from ...shapes import Object, is_object
from ..revisions import Revision

VENDOR = "dovetail/"
REASON = VENDOR + "reason"
"""The prefix of our own ``_meta`` keys: what a dialect says and the specification has no member for."""


class Alias(Struct, frozen=True):
    """One way a peer may say something differently."""

    edit: Callable[[Object], None]
    """Turns the decoded object into the canonical shape, in place; leaves alone what it does not know."""
    needles: tuple[bytes, ...] = ()
    """The edit runs when all of these occur in the raw bytes. Empty: only after the typed decode failed."""
    unless: bytes = b""
    """… and not when this occurs: the official spelling that shares the needle."""
    probe: Callable[[bytes], bool] | None = None
    """… and when this says so, where only reading tells the alias from the official spelling."""

    def claims(self, raw: bytes) -> bool:
        """Whether ``raw`` may use this alias although it decodes without it."""
        for needle in self.needles:
            if needle not in raw:
                return False
        if not self.needles or (self.unless and self.unless in raw):
            return False
        return self.probe is None or self.probe(raw)


class Dialect(Struct, frozen=True, kw_only=True, eq=False):
    """One profile. The tables are read by the codec, the flags by whoever their names concern."""

    name: str

    # How it is written
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

    # How failures are written
    errors: Mapping[str, int] = {}
    """Kind → code on the legacy revisions; kinds that are missing use the official code."""
    messages: Mapping[str, str] = {}
    """Kind → text in place of ours; ``{member}`` is filled from the error's data."""
    error_data: Mapping[str, Callable[[str, Any], Any]] = {}
    """Kind → edit of ``data``, given our message and the data (UNSET when there is none). Legacy only."""
    http_status: Mapping[int, int] = {}
    """Code → HTTP status; see `status_of`."""

    # What it switches on
    methods: frozenset[str] = frozenset()
    """Methods of this dialect alone, on every revision. No other peer may call them."""
    older: frozenset[str] = frozenset()
    """Methods that here every legacy revision has, though officially only later ones do."""
    limits: Limits | None = None
    timeouts: Timeouts | None = None
    config_keys: Mapping[str, tuple[str, tuple[str, ...]]] = {}
    """The documents' names of settings → the transport ("http" for all of an HTTP app), members of `Limits`."""
    limits_both_ways: bool = False
    """Messages that are too large to be accepted are too large to be sent as well."""
    versions: tuple[str, ...] = ()
    """The only revisions a client of this profile accepts; empty: all."""
    client_capabilities: Mapping[str, Any] = {}
    """What a client declares when the application says nothing."""
    server_capabilities: Mapping[str, Mapping[str, Any]] = {}
    """Members laid over a declared server capability, whatever is registered. Legacy revisions only."""

    # How strict it is
    strict: bool = False
    """No alias is understood."""
    batches_on_legacy: bool = False
    """Arrays are served on every legacy revision, not on 2025-03-26 alone (never with ``initialize``)."""
    null_error_id: bool = False
    """An error without a readable id says ``"id": null`` on every legacy revision."""
    anonymous_encoding_errors: bool = False
    """The error for a message that is not UTF-8 has no id, also where one can be read. Legacy revisions only."""
    drop_malformed_answers: bool = False
    """A malformed answer is counted and dropped, and its request waits on for a correct one."""
    tool_failure_as_error: bool = False
    """A failed tool answers with a JSON-RPC error in place of ``isError``; one whose work was cancelled with
    ``tool_cancelled``. Legacy revisions only."""
    argument_errors: Literal["error", "tool_result"] | None = None
    """How bad tool arguments are reported, when not as the revision says. Legacy revisions only."""
    intersect_capabilities: bool = False
    """Offer only what the client named, once it named at least one of resources, tools, prompts, logging."""
    refuse_page_size: bool = False
    """A bad or too large ``limit``, or a bad ``offset``, is an error, not ignored."""
    subscription_failures: bool = False
    """A subscription to a resource that does not exist, or one too many, is ``subscription_failed``."""
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
        """Whether a server says that it has no such capability (``resources.subscribe``), whatever is registered."""
        name, _, member = (capability or "").partition(".")
        return self.server_capabilities.get(name, {}).get(member) is False


def limits_of(dialect: Dialect, limits: Limits | None) -> Limits:
    """The limits of a server or client: those it was given, or else its dialect's."""
    limits = limits or dialect.limits or Limits()
    if dialect.limits_both_ways and limits.max_response_bytes is None:
        return msgspec.structs.replace(limits, max_response_bytes=limits.max_message_bytes)
    return limits


def rewrite(aliases: tuple[Alias, ...], raw: bytes | Raw) -> bytes:
    """The same object in canonical shape; what is no object comes back as it is.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: the bytes are not JSON after all.
    """
    members: Any = msgspec.json.decode(raw)
    if not is_object(members):
        return bytes(raw)
    for edit in dict.fromkeys(alias.edit for alias in aliases):
        edit(members)
    return msgspec.json.encode(members)


def strictly(dialect: Dialect) -> Dialect:
    """The same dialect without its aliases."""
    return msgspec.structs.replace(dialect, strict=True, inbound_methods={}, field_in={}, result_in={})


def column(pick: Callable[[Kind], int | None]) -> dict[str, int]:
    """Kind → code from one column of `KINDS`, where the column has a number."""
    return {name: code for name, row in KINDS.items() if (code := pick(row)) is not None}


def extra(members: Object, name: str, value: Any) -> None:
    """Keep what has no place in the canonical shape under our own ``_meta`` key."""
    meta = members.get("_meta")
    if not is_object(meta):
        meta = members["_meta"] = Object()
    meta.setdefault(VENDOR + name, value)


def take_extra(members: Object, name: str) -> Any:
    """Take back what `extra` kept; UNSET when there is nothing."""
    meta = members.get("_meta")
    if not is_object(meta):
        return UNSET
    value = meta.pop(VENDOR + name, UNSET)
    if not meta:
        del members["_meta"]
    return value


def restore(members: Object, name: str) -> None:
    """Put back in its place what `extra` kept, if there is anything."""
    value = take_extra(members, name)
    if value is not UNSET:
        members[name] = value


# --- failures ----------------------------------------------------------------------------------------------

_MODERN_CODES = frozenset((-32020, -32021, -32022))
_RESERVED = range(-32099, -31999)
_ENVELOPE = frozenset({"parse_error", "invalid_encoding", "invalid_request", "message_too_large"})
_REFUSED = frozenset(
    row.name
    for row in KINDS.values()
    if row.refusal is not None and row.delivery != "http" and row.status not in LATER
)
"""What a handler will not do. The message was fine, and a bare 4xx would be read as "no modern server"."""
_KIND = re.compile(r"[a-z][a-z0-9_]{0,63}")


def wire_error(error: DovetailError, revision: Revision, dialect: Dialect) -> tuple[int, str, Any]:
    """Code, message and data (UNSET for none) of ``error`` on this revision.

    ``data.kind`` is always there unless ``data`` is taken by something that is no object. Text of failures
    that are nobody's business but ours (lost upstreams, wrong states) is replaced by the kind's own.
    """
    kind, chosen, message, data = _said(error, revision)
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
    """The HTTP status of a request that ends in ``error`` before anything was streamed."""
    if revision.modern and isinstance(error, CapabilityError):
        return 400  # told as -32021
    if error.kind == "insufficient_permissions":
        return 403  # a client of any era can ask for further scopes and come back
    status = 200  # legacy clients may not read the body of anything else
    if error.kind not in _REFUSED and (revision.modern or error.kind in _ENVELOPE):
        status = http_status(error.kind)
    # What the envelope checks refused stays 400: 2026-07-28 demands it, and MiniMCP answers it so.
    if status == 400 or not dialect.http_status:
        return status
    return dialect.http_status.get(wire_error(error, revision, dialect)[0], status)


def error_from_wire(
    code: int, message: str, data: Any, revision: Revision, dialect: Dialect
) -> ProtocolError | Refusal:
    """The exception for an error object a peer sent; raise it to the caller.

    ``data.kind`` wins over the number: -32001 … -32007 mean different things to different systems.
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


def _said(error: DovetailError, revision: Revision) -> tuple[str, int | None, str, Any]:
    """Kind, code when the raiser chose it, text and data."""
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
        pass  # the error does not carry what the text wants to name: ours says enough
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
