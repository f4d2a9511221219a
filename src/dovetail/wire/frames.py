"""The JSON-RPC envelope: one decode per message; params and results stay raw until they are needed.

Invalid messages and the error that each one gets:

====================================================  ================  ==========================
message                                               kind              id in the error
====================================================  ================  ==========================
not JSON, a byte order mark, a lone surrogate         parse_error       if it can be decoded
JSON with bytes that are not UTF-8                    invalid_encoding  if it can be decoded
nesting deeper than the interpreter allows            parse_error       if it precedes the nesting
JSON, but not a JSON-RPC 2.0 message                  invalid_request   if it is a valid id
an id that is null, a boolean, a fraction, beyond     invalid_request   none
64 bits or longer than `LONGEST_ID`
====================================================  ================  ==========================

Member names are case-sensitive and unknown members are ignored. A duplicate key in the message or in its
params, however it is escaped, makes it an invalid request.
After `decode` every raw member is valid UTF-8 and valid JSON, so it may be stored, compared or forwarded
unchanged.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Final, NoReturn

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ..errors import NAME_ECHO, RemoteProtocolError
from ..lazy_pattern import lazy_pattern
from .duplicate_keys import decode_members, first_duplicate

LONGEST_ID: Final = 1024
"""Characters of a request id or a progress token: they are stored in tables and sent back."""
REREAD_BYTES: Final = 256 << 10
"""Bytes from which on an invalid message is not decoded a second time in full."""
BATCH_DECODERS_KEPT: Final = 8
"""Decoders of batches that are cached, one for each limit."""


SHALLOW_BYTES: Final = 4096
SHALLOW_DEPTH: Final = 8
"""How far a message that is nested too deeply is searched for its id, in bytes and in levels."""
MAX_REENCODED_BYTES: Final = 4 << 10
"""Messages up to this many bytes are re-encoded to detect duplicate keys; longer ones are measured in parts.
"""

RequestId = int | str

INTEGERS = range(-(1 << 63), 1 << 64)
"""The range of integer ids and progress tokens."""

_SURROGATE = lazy_pattern(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

_STRING = rb'"(?:[^"\\\x00-\x1f\x80-\xff]|\\["\\/bfnrt])*+"'
_TOKEN = lazy_pattern(
    rb'"(?P<key>id|method)"[ \t\r\n]*:[ \t\r\n]*(?P<value>'
    + _STRING
    + rb"|-?(?:0|[1-9][0-9]{0,19})(?![0-9.eE]))"
    rb'|"(?:[^"\\]|\\.)*+"|[\[\]{}"]',
    re.DOTALL,
)

LINE_FEED, CARRIAGE_RETURN, BACKSLASH = b"\n\r\\"
"""As integers: searching bytes for an integer is ten times as fast as searching for bytes."""

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The exceptions of msgspec for bytes that it cannot decode."""


class MessageFacts:
    """Facts about a message that no peer can set."""

    __slots__ = ("members",)
    members: dict[str, Raw] | None
    """The members of params, if they are unchanged; None if they were not decoded yet."""


class Frame(MessageFacts, Struct, eq=False):
    """One message. Absent members are `UNSET`, and so is the null id of an error."""

    id: Any = UNSET
    method: Any = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET
    jsonrpc: Any = UNSET


class _Identified(Struct):
    id: Any = UNSET
    method: Raw | UnsetType = UNSET


_decode_frame = msgspec.json.Decoder(Frame).decode
_decode_id = msgspec.json.Decoder(_Identified).decode
_decode_any = msgspec.json.Decoder().decode
_decode_syntax = msgspec.json.Decoder(Raw).decode


def decode(data: bytes | Raw) -> Frame:
    """Decode one message. Its members show its type: ``method``, ``result`` or ``error``.

    Raises:
        RemoteProtocolError: of kind ``parse_error``, ``invalid_encoding`` or ``invalid_request``. Respond
            with it (its ``id`` is set if the message had a valid one) and continue with the next message.
    """
    try:
        frame = _decode_frame(data)
    except UNREADABLE as error:
        _refuse_unreadable(data, error)
    # Raw members skip the checks of strings. So this scan checks the two ways in which a string can be
    # invalid, and later code can rely on valid strings.
    data = bytes(data) if type(data) is not bytes else data
    if not data.isascii() or (BACKSLASH in data and (b"\\ud" in data or b"\\uD" in data)):
        _check_text(data)
    method = frame.method
    id = frame.id
    if frame.jsonrpc != "2.0":
        _refuse(frame, 'the message must contain "jsonrpc": "2.0"')
    if id is not UNSET and not (
        len(id) <= LONGEST_ID if type(id) is str else type(id) is int and id in INTEGERS
    ):
        # The error response to an unreadable message has the id null.
        if id is not None or method is not UNSET or frame.result is not UNSET or frame.error is UNSET:
            raise RemoteProtocolError(
                "invalid_request",
                f"the id must be a string of at most {LONGEST_ID} characters or an integer of at most 64 bits",
            )
        frame.id = UNSET
    if type(method) is str:
        if frame.result is not UNSET or frame.error is not UNSET:
            _refuse(frame, "the message has both a method and a result or error")
    elif method is not UNSET:
        _refuse(frame, "the method must be a string")
    elif (frame.result is UNSET) is (frame.error is UNSET):
        _refuse(frame, "the message needs a method, or exactly one of result and error")
    elif id is UNSET and frame.error is UNSET:
        _refuse(frame, "the response has no id")
    # The shortest encoding of these members has no room for a duplicate key. See `duplicate_keys`.
    params = frame.params
    frame.members = members = None
    if len(data) <= MAX_REENCODED_BYTES:
        if params is not UNSET:
            try:
                members = decode_members(params)
                frame.params = members  # pyright: ignore[reportAttributeAccessIssue]
            except msgspec.ValidationError:
                pass  # not an object, so it has no keys; decoding params reports it
        size = len(encode(frame))
        frame.params = params
        if size == len(data):
            frame.members = members
            return frame
    _check_duplicates(frame, data)
    return frame


def is_batch(data: bytes) -> bool:
    """Whether the message is an array. The revision may not allow batches."""
    return data[:1] == b"[" or (data[:1].isspace() and data.lstrip()[:1] == b"[")


def split_batch(data: bytes, limit: int) -> list[Raw]:
    """Split a batch into undecoded messages.

    Raises:
        RemoteProtocolError: the message is not an array (``parse_error``), is empty or has more than
            ``limit`` entries (``invalid_request``). Respond with one error, not with an array.
    """
    try:
        array = _array_decoder(limit + 1).decode(data)
    except UNREADABLE as error:
        _refuse_unreadable(data, error)
    entries = [entry for entry in msgspec.structs.astuple(array) if entry is not UNSET]
    if not entries:
        raise RemoteProtocolError("invalid_request", "the batch is empty")
    if len(entries) > limit:
        raise RemoteProtocolError("invalid_request", f"the batch has more than {limit} messages")
    return entries


def decode_entry(entry: Raw) -> Frame | RemoteProtocolError:
    """Decode an entry of a batch, or return the error to respond with."""
    try:
        return decode(bytes(entry))
    except RemoteProtocolError as error:
        return error


@functools.lru_cache(maxsize=BATCH_DECODERS_KEPT)
def _array_decoder(length: int) -> msgspec.json.Decoder[Struct]:
    # A list would create an object for every entry of a hostile array before they are counted. An array-like
    # struct keeps the first entries and skips the others without creating objects.
    fields = [(f"entry{index}", Raw | UnsetType, UNSET) for index in range(length)]
    return msgspec.json.Decoder(msgspec.defstruct("Batch", fields, array_like=True))


def encode_batch(messages: list[bytes]) -> bytes:
    """Join encoded messages to a JSON array."""
    return b"[" + b",".join(messages) + b"]"


def _identified(data: bytes) -> _Identified:
    """Return id and method of an invalid message; an invalid id is None."""
    try:
        # A lone surrogate stops msgspec. Here its value does not matter, so it is replaced.
        found = _shallow(data) if len(data) > REREAD_BYTES else _decode_id(_SURROGATE.sub(rb"\\ufffd", data))
    except RecursionError:
        found = _shallow(data)
    except UNREADABLE:
        return _Identified(None)
    id = _valid_id(found.id)
    found.id = None if type(id) is str and ("\ufffd" in id or "ufffd" in id) else id
    return found


def _shallow(data: bytes) -> _Identified:
    """Return the outermost id and method of a message that cannot be decoded, if they precede the nesting."""
    found = _Identified()
    depth = 0
    for token in _TOKEN.finditer(data, 0, SHALLOW_BYTES):
        text = token[0]
        if text[:1] in b"{[":
            depth += 1
        elif text[:1] in b"}]":
            depth -= 1
        elif depth == 1 and token["key"] == b"id":
            found.id = _decode_any(token["value"])
        elif depth == 1 and token["key"] == b"method":
            found.method = Raw(token["value"])
        if depth > SHALLOW_DEPTH or text == b'"':
            break  # a lone quote starts an unterminated string: stop searching
    return found


# --- encoding -----------------------------------------------------------------------------------------------


class RequestFrame(Struct, tag_field="jsonrpc", tag="2.0"):
    id: RequestId
    method: str
    params: Any = UNSET


class NotificationFrame(Struct, tag_field="jsonrpc", tag="2.0"):
    method: str
    params: Any = UNSET


class ResultFrame(Struct, tag_field="jsonrpc", tag="2.0"):
    id: RequestId
    result: Any


class ErrorFrame(Struct, tag_field="jsonrpc", tag="2.0"):
    id: RequestId | UnsetType | None
    error: Any


encode = msgspec.json.Encoder().encode
"""Encode one frame as one line without its newline."""


# --- errors -------------------------------------------------------------------------------------------------


def too_large(limit: int, what: str = "message") -> RemoteProtocolError:
    """Return the error for a message that exceeds ``limit`` bytes."""
    return RemoteProtocolError(
        "message_too_large", f"the {what} exceeds {limit} bytes", data={"maxSize": limit, "unit": "bytes"}
    )


def _valid_id(id: Any) -> RequestId | None:
    if type(id) is str:
        return id if len(id) <= LONGEST_ID else None
    return id if type(id) is int and id in INTEGERS else None


def _refuse(frame: Frame, message: str) -> NoReturn:
    raise RemoteProtocolError(
        "invalid_request", message, id=_valid_id(frame.id), answers=frame.method is UNSET
    )


def _check_duplicates(frame: Frame, data: bytes) -> None:
    """Check that a message is longer than the shortest encoding of its members by spaces only."""
    id, method, inside = frame.id, frame.method, b""
    more = len(data) - 17  # {"jsonrpc":"2.0"}
    if id is not UNSET:
        more -= 6 + len(str(id)) + (0 if type(id) is int else 2)
    if method is not UNSET:
        more -= 12 + len(method)
    if frame.params is not UNSET:
        inside = bytes(frame.params)
        more -= 10 + len(inside)
        try:
            members = decode_members(inside)
        except msgspec.ValidationError:
            members = {}
        size = len(inside) - (1 + sum(map(len, members)) + sum(map(len, members.values())) + 4 * len(members))
        if size:
            parts = b"".join(members.values()).count(b" ") + "".join(members).count(" ")
            if size != inside.count(b" ") - parts:
                _refuse_duplicate(frame, frame.params, "params has")
    elif frame.result is not UNSET:
        inside = bytes(frame.result)
        more -= 10 + len(inside)
    elif frame.error is not UNSET:
        inside = bytes(frame.error)
        more -= 9 + len(inside)
    if more and more != data.count(b" ") - inside.count(b" ") - f"{id}{method}".count(" "):
        _refuse_duplicate(frame, data, "the message has")


def _refuse_duplicate(frame: Frame, data: bytes | Raw, what: str) -> None:
    key = first_duplicate(data)
    if key is not None:
        if data is not frame.params and key == "id":
            frame.id = UNSET  # ambiguous which of the two ids to respond to
        _refuse(frame, f"{what} the duplicate key {key[:NAME_ECHO]!r}")


def _check_text(data: bytes) -> None:
    try:
        if not data.isascii():
            data.decode()
        if b"\\ud" in data or b"\\uD" in data:
            _decode_any(data)
    except msgspec.ValidationError:
        return  # valid JSON with a number beyond the range of floats; the typed decode reports it
    except UNREADABLE as error:
        _refuse_unreadable(data, error)


def _refuse_unreadable(data: bytes | Raw, reason: Exception) -> NoReturn:
    """Raise the error that distinguishes invalid JSON from JSON that is not a message."""
    data = bytes(data)
    kind, message = "parse_error", "the message is not valid JSON"
    if isinstance(reason, RecursionError):
        message = "the message is nested too deeply"
    elif isinstance(reason, UnicodeDecodeError):
        kind, message = "invalid_encoding", "the message is not valid UTF-8"
    elif isinstance(reason, msgspec.ValidationError) and _is_json(data):
        kind, message = "invalid_request", "the message is not a JSON-RPC object"
    found = _identified(data)
    raise RemoteProtocolError(kind, message, id=found.id, answers=found.method is UNSET) from None


def _is_json(data: bytes) -> bool:
    # msgspec reports a wrong type before it has read the rest, so the rest is checked here.
    try:
        _decode_syntax(data)
        data.decode()
    except UNREADABLE:
        return False
    return True
