"""The JSON-RPC envelope: one decode per message, params and results left raw until somebody wants them.

What a peer may get wrong, and what it is told:

====================================================  ================  ==========================
message                                               kind              id in the error
====================================================  ================  ==========================
not JSON, a byte order mark, a lone surrogate         parse_error       when it can still be read
JSON but for bytes that are no UTF-8                  invalid_encoding  when it can still be read
nesting deeper than the interpreter takes             parse_error       when it stands before that
JSON, but no JSON-RPC 2.0 message                     invalid_request   when it is a legal id
an id that is null, a boolean, a fraction, beyond     invalid_request   none
64 bits or longer than `LONGEST_ID`
====================================================  ================  ==========================

Member names are case-sensitive; unknown members are ignored; a key that comes twice in the message or in its params,
however it is spelt, makes it an invalid request.
After `decode` every raw member is known to be valid UTF-8 and valid JSON, so it may be stored, compared or
passed on as it is.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Final, NoReturn

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ..errors import NAME_ECHO, RemoteProtocolError
from .duplicate_keys import decode_members, twice

LONGEST_ID: Final = 1024
"""Characters of a request id or a progress token: they are stored in tables and sent back."""
REREAD_BYTES: Final = 256 << 10
"""Bytes from which on an invalid message is not decoded a second time in full."""
BATCH_DECODERS_KEPT: Final = 8
"""Decoders of batches that are cached, one for each limit."""


SHALLOW_BYTES: Final = 4096
SHALLOW_DEPTH: Final = 8
"""How far a message that is nested too deeply is searched for its id, in bytes and in levels."""
REWRITTEN_BYTES: Final = 4 << 10
"""Bytes up to which a message is written again to see whether a key came twice; parts of longer ones are counted."""

RequestId = int | str

INTEGERS = range(-(1 << 63), 1 << 64)
"""What an integer may be that names something: an id, a progress token."""

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

_STRING = rb'"(?:[^"\\\x00-\x1f\x80-\xff]|\\["\\/bfnrt])*+"'
_TOKEN = re.compile(
    rb'"(?P<key>id|method)"[ \t\r\n]*:[ \t\r\n]*(?P<value>'
    + _STRING
    + rb"|-?(?:0|[1-9][0-9]{0,19})(?![0-9.eE]))"
    rb'|"(?:[^"\\]|\\.)*+"|[\[\]{}"]',
    re.DOTALL,
)

LINE_FEED, CARRIAGE_RETURN, BACKSLASH = b"\n\r\\"
"""As numbers: looking for a number in bytes takes a tenth of the time that looking for bytes in bytes does."""

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Everything msgspec raises for bytes it cannot turn into a value."""


class Apart:
    """What is known of a message beside its own members: no peer can set it."""

    __slots__ = ("members",)
    members: dict[str, Raw] | None
    """Those of its params, where no other bytes stand there; None: nobody has taken them apart."""


class Frame(Apart, Struct, eq=False):
    """One message. Members the peer left out are `UNSET`, and so is the null id of an error."""

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
    """Read one message. What it is shows in its members: ``method``, ``result`` or ``error``.

    Raises:
        RemoteProtocolError: of kind ``parse_error``, ``invalid_encoding`` or ``invalid_request``. Answer it (its ``id``
            is set when the message had a legal one) and go on with the next message.
    """
    try:
        frame = _decode_frame(data)
    except UNREADABLE as error:
        _refuse_unreadable(data, error)
    # Raw members skip the checks of strings, so the two ways to break one are looked for here, at the price
    # of a scan; everybody downstream may then trust them.
    data = bytes(data) if type(data) is not bytes else data
    if not data.isascii() or (BACKSLASH in data and (b"\\ud" in data or b"\\uD" in data)):
        _check_text(data)
    method = frame.method
    id = frame.id
    if frame.jsonrpc != "2.0":
        _refuse(frame, 'the message lacks "jsonrpc": "2.0"')
    if id is not UNSET and not (
        len(id) <= LONGEST_ID if type(id) is str else type(id) is int and id in INTEGERS
    ):
        # An error about a message nobody could read comes back with the id null.
        if id is not None or method is not UNSET or frame.result is not UNSET or frame.error is UNSET:
            raise RemoteProtocolError(
                "invalid_request",
                f"the id must be a string of at most {LONGEST_ID} characters or an integer of at most 64 bits",
            )
        frame.id = UNSET
    if type(method) is str:
        if frame.result is not UNSET or frame.error is not UNSET:
            _refuse(frame, "a message is a request or a response, not both")
    elif method is not UNSET:
        _refuse(frame, "the method must be a string")
    elif (frame.result is UNSET) is (frame.error is UNSET):
        _refuse(frame, "the message has neither a method nor exactly one of result and error")
    elif id is UNSET and frame.error is UNSET:
        _refuse(frame, "the response lacks its id")
    # The shortest text with these members has no room for a key that comes twice. See `duplicates`.
    params = frame.params
    frame.members = members = None
    if len(data) <= REWRITTEN_BYTES:
        if params is not UNSET:
            try:
                members = decode_members(params)
                frame.params = members  # pyright: ignore[reportAttributeAccessIssue]
            except msgspec.ValidationError:
                pass  # no object: it has no keys, and whoever reads params will say so
        size = len(encode(frame))
        frame.params = params
        if size == len(data):
            frame.members = members
            return frame
    _look_for_twice(frame, data)
    return frame


def is_batch(data: bytes) -> bool:
    """Whether the message is an array. Says nothing about the revision allowing it."""
    return data[:1] == b"[" or (data[:1].isspace() and data.lstrip()[:1] == b"[")


def split_batch(data: bytes, limit: int) -> list[Raw]:
    """The messages of a batch, not decoded.

    Raises:
        RemoteProtocolError: the whole is no array (``parse_error``), is empty or has more than ``limit`` entries
            (``invalid_request``). Answer with this one error, not with an array.
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
    """A message of an array, or the error to answer it with."""
    try:
        return decode(bytes(entry))
    except RemoteProtocolError as error:
        return error


@functools.lru_cache(maxsize=BATCH_DECODERS_KEPT)
def _array_decoder(length: int) -> msgspec.json.Decoder[Struct]:
    # A list would hold every entry of a hostile array, millions in one message, before they are counted. An
    # array-like struct keeps the first entries and skips the others without making objects of them.
    fields = [(f"entry{index}", Raw | UnsetType, UNSET) for index in range(length)]
    return msgspec.json.Decoder(msgspec.defstruct("Batch", fields, array_like=True))


def encode_batch(messages: list[bytes]) -> bytes:
    """Join encoded messages to one array."""
    return b"[" + b",".join(messages) + b"]"


def _identified(data: bytes) -> _Identified:
    """Id and method of a message that failed otherwise; an id that is not legal is None."""
    try:
        # A lone surrogate keeps msgspec from reading on; what stands in its place does not matter here.
        found = _shallow(data) if len(data) > REREAD_BYTES else _decode_id(_SURROGATE.sub(rb"\\ufffd", data))
    except RecursionError:
        found = _shallow(data)
    except UNREADABLE:
        return _Identified(None)
    id = _legal(found.id)
    found.id = None if type(id) is str and ("\ufffd" in id or "ufffd" in id) else id
    return found


def _shallow(data: bytes) -> _Identified:
    """The outermost id and method of a message nobody can decode, if they stand before the nesting."""
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
            break  # a lone quote begins a string without an end: what follows is not worth a search
    return found


# --- writing -----------------------------------------------------------------------------------------------
# The tag puts "jsonrpc" first into every frame without a member to set; one encode writes the whole line.


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
"""Write one frame as one line without its newline."""


# --- refusing ----------------------------------------------------------------------------------------------


def too_large(limit: int, what: str = "message") -> RemoteProtocolError:
    """What a peer is told whose message exceeds ``limit`` bytes."""
    return RemoteProtocolError(
        "message_too_large", f"the {what} exceeds {limit} bytes", data={"maxSize": limit, "unit": "bytes"}
    )


def _legal(id: Any) -> RequestId | None:
    if type(id) is str:
        return id if len(id) <= LONGEST_ID else None
    return id if type(id) is int and id in INTEGERS else None


def _refuse(frame: Frame, message: str) -> NoReturn:
    raise RemoteProtocolError("invalid_request", message, id=_legal(frame.id), answers=frame.method is UNSET)


def _look_for_twice(frame: Frame, data: bytes) -> None:
    """Whatever a message has more than the shortest text with its members must be spaces between them."""
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
                _refuse_twice(frame, frame.params, "params has")
    elif frame.result is not UNSET:
        inside = bytes(frame.result)
        more -= 10 + len(inside)
    elif frame.error is not UNSET:
        inside = bytes(frame.error)
        more -= 9 + len(inside)
    if more and more != data.count(b" ") - inside.count(b" ") - f"{id}{method}".count(" "):
        _refuse_twice(frame, data, "the message has")


def _refuse_twice(frame: Frame, data: bytes | Raw, what: str) -> None:
    key = twice(data)
    if key is not None:
        if data is not frame.params and key == "id":
            frame.id = UNSET  # nobody can tell which of the two to answer
        _refuse(frame, f"{what} the key {key[:NAME_ECHO]!r} twice")


def _check_text(data: bytes) -> None:
    try:
        if not data.isascii():
            data.decode()
        if b"\\ud" in data or b"\\uD" in data:
            _decode_any(data)
    except msgspec.ValidationError:
        return  # valid JSON whose numbers no float can hold: for the typed decode to judge
    except UNREADABLE as error:
        _refuse_unreadable(data, error)


def _refuse_unreadable(data: bytes | Raw, reason: Exception) -> NoReturn:
    """Tell what is not JSON from JSON that is no message."""
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
    # msgspec reports a wrong type before it has read the rest, so the rest is read here.
    try:
        _decode_syntax(data)
        data.decode()
    except UNREADABLE:
        return False
    return True
