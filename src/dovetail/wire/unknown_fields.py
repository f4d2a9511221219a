"""Preservation of unknown members when messages are forwarded.

Decoding drops unknown members. A proxy between revisions must not: only members that the target revision
cannot express are removed by its edits. `has_unknown` detects unknown members with one more decode, into types that
forbid them. Only if there are any does `merge_unknown` compare the two encodings.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, ValidationError, defstruct
from msgspec.structs import fields, replace

from ..model import (
    CreateMessageRequestParams,
    ElicitRequestParams,
    InputRequiredResult,
    LoggingMessageNotificationParams,
    PaginatedResult,
    ProgressNotificationParams,
    Result,
)

ORIGINAL_KEY: Final = "dovetail/came"
"""The ``_meta`` key that stores the original encoding of a value until it is encoded again.

It is never sent.
"""

_SAID: Final = (
    CreateMessageRequestParams,
    ElicitRequestParams,
    LoggingMessageNotificationParams,
    ProgressNotificationParams,
)
"""What a server sends in messages and results. (The params of a client's request are in `Call.raw_params`.)
"""

_members: Callable[[bytes | Raw], dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw]).decode
_items: Callable[[bytes | Raw], list[Raw]] = msgspec.json.Decoder(list[Raw]).decode
_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.encode


class OriginalEncoding(Struct, frozen=True):
    """An encoded value as the peer wrote it. A distinct type, so that no peer can create one."""

    data: Raw


def has_unknown(kind: type[Struct], data: bytes | Raw) -> bool:
    """Whether ``data``, an encoded ``kind``, contains unknown members or content blocks."""
    try:
        _strict(kind)(data)
    except ValidationError:
        return True
    return False


def merge_unknown(kind: type[Struct], came: bytes | Raw, goes: bytes | Raw) -> bytes:
    """Return ``goes``, which was converted from ``came``, with all members that ``kind`` does not define."""
    found, known = _members(goes), _shape(kind)
    for name, value in _members(came).items():
        below = known.get(name)
        if below is None:
            found.setdefault(name, value)
        elif below and name in found:
            found[name] = _merge_member(below, value, found[name])
    return _encode(found)


def _merge_member(below: tuple[type[Struct], ...], came: Raw, goes: Raw) -> Raw:
    """Merge one member whose type is one of ``below``."""
    first, second = bytes(came)[:1], bytes(goes)[:1]
    if first == second == b"[":
        ours, theirs = _items(goes), _items(came)
        if len(ours) != len(theirs):
            return goes  # the edits changed its form
        return Raw(_encode([_merge_member(below, *pair) for pair in zip(theirs, ours, strict=True)]))
    if first != b"{" or second != b"{":
        return goes
    kind = _kind_of(below, came)
    if kind is None:
        return came  # a content block of an unknown type
    return Raw(merge_unknown(kind, came, goes)) if _kind_of(below, goes) is kind else goes


def _kind_of(below: tuple[type[Struct], ...], data: Raw) -> type[Struct] | None:
    """Return which of the types an object has, by its tag if there is one."""
    field = below[0].__struct_config__.tag_field
    if field is None:
        return below[0]
    said = _members(data).get(field)
    tag = _text(said) if said is not None and bytes(said)[:1] == b'"' else None
    return next((kind for kind in below if kind.__struct_config__.tag == tag), None)


# --- attaching the original encoding ------------------------------------------------------------------------


def preserving(kind: Any, decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap ``decode`` for ``kind``: it attaches the original encoding if there are unknown members."""
    if not (isinstance(kind, type) and issubclass(kind, (Result, *_SAID))):
        return decode
    if kind is InputRequiredResult:
        return partial(_keeping_questions, decode)
    if issubclass(kind, PaginatedResult):
        return _keeping_entries(kind, decode)

    def read(data: Any) -> Any:
        result = decode(data)
        return attach_original(result, data) if has_unknown(kind, data) else result

    return read


def attach_original(result: Any, data: bytes | Raw) -> Any:
    """Attach the original encoding to ``result``, or to an entry of a list."""
    result.meta = {**(result.meta or {}), ORIGINAL_KEY: OriginalEncoding(Raw(bytes(data)))}
    return result


def _keeping_entries(kind: type[Struct], decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    member = _entries_of(kind)
    if member is None:
        return decode

    def read(data: Any) -> Any:
        result = decode(data)
        if has_unknown(kind, data):
            entries: list[Any] = getattr(result, member[0])
            for entry, came in zip(entries, _items(_members(data)[member[1]]), strict=True):
                if has_unknown(entry.__class__, came):
                    attach_original(entry, came)
        return result

    return read


def _keeping_questions(decode: Callable[[Any], Any], data: Any) -> Any:
    result = decode(data)
    if result.input_requests:
        came = _members(_members(data)["inputRequests"])
        for key, request in result.input_requests.items():
            if isinstance(request.params, _SAID) and has_unknown(
                type(request.params), asked := _members(came[key])["params"]
            ):
                attach_original(request.params, asked)
    return result


def without_original(value: Any) -> Any:
    """Copy the value without its original encoding."""
    return _separate(value)[0]


def original_meta(value: Any) -> Any:
    """Return only the original encoding of a value, as metadata."""
    came = _separate(value)[1]
    return UNSET if came is None else {ORIGINAL_KEY: OriginalEncoding(came)}


def encode_with_original(value: Any) -> Any:
    """Return the value for encoding with its unknown members unchanged."""
    return encode_preserving(value, lambda one: one)


def encode_preserving(value: Any, write: Callable[[Any], Any]) -> Any:
    """Encode a result or params with ``write``, and add the preserved members of it, its entries or its input
    requests."""
    if value.__class__ is Raw or not isinstance(value, Struct):
        return write(value)
    if value.__class__ is InputRequiredResult:
        return _written_questions(value, write)
    member = _entries_of(type(value)) if isinstance(value, PaginatedResult) else None
    if member is None:
        plain, came = _separate(value)
        return (
            write(value) if came is None else Raw(merge_unknown(value.__class__, came, _encode(write(plain))))
        )
    listed: list[Any] = getattr(value, member[0])
    parts = [_separate(entry) for entry in listed]
    if all(came is None for _, came in parts):
        return write(value)
    page = _members(_encode(write(replace(value, **{member[0]: [entry for entry, _ in parts]}))))
    pairs = zip(parts, _items(page[member[1]]), strict=True)
    entries = [
        goes if came is None else Raw(merge_unknown(one.__class__, came, goes)) for (one, came), goes in pairs
    ]
    return {**page, member[1]: entries}


def _written_questions(value: Any, write: Callable[[Any], Any]) -> Any:
    asked: dict[str, Any] = value.input_requests or {}
    parts = {key: _separate(request.params) for key, request in asked.items()}
    if all(came is None for _, came in parts.values()):
        return write(value)
    plain = {key: replace(request, params=parts[key][0]) for key, request in asked.items()}
    result = _members(_encode(write(replace(value, input_requests=plain))))
    requests = {key: _members(request) for key, request in _members(result["inputRequests"]).items()}
    for key, (params, came) in parts.items():
        if came is not None:
            requests[key]["params"] = Raw(merge_unknown(params.__class__, came, requests[key]["params"]))
    return {**result, "inputRequests": requests}


def _separate(value: Any) -> tuple[Any, Raw | None]:
    meta: Any = getattr(value, "meta", UNSET)
    came = meta.get(ORIGINAL_KEY) if meta else None
    if type(came) is not OriginalEncoding:
        return value, None
    rest = {name: other for name, other in meta.items() if name != ORIGINAL_KEY}
    return replace(value, meta=rest or UNSET), came.data


# --- types --------------------------------------------------------------------------------------------------


@cache
def _entries_of(kind: type[Struct]) -> tuple[str, str] | None:
    """Return the member of a page that holds its entries: attribute and JSON name."""
    found = [field for field in fields(kind) if list in (get_origin(one) for one in _choices(field.type))]
    return (found[0].name, found[0].encode_name) if len(found) == 1 else None


@cache
def _shape(kind: type[Struct]) -> Mapping[str, tuple[type[Struct], ...]]:
    """Map the JSON names of ``kind`` to the types that each member may contain."""
    known = {field.encode_name: tuple(_below(field.type)) for field in fields(kind)}
    tag = kind.__struct_config__.tag_field
    return known if tag is None else {**known, tag: ()}


def _below(annotation: Any) -> Iterator[type[Struct]]:
    """Yield the Structs in an annotation, alone or in lists; mappings are not searched."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        yield annotation
    elif get_origin(annotation) is not dict:
        for one in get_args(annotation):
            yield from _below(one)


@cache
def _strict(kind: type[Struct]) -> Callable[[bytes | Raw], Any]:
    """Return a decoder for ``kind`` that refuses unknown members."""
    return msgspec.json.Decoder(_twin(kind)).decode


@cache
def _twin(kind: type[Struct]) -> Any:
    members = [
        (field.name, _twinned(field.type) if tuple(_below(field.type)) else Raw | UnsetType, UNSET)
        for field in fields(kind)
    ]
    config = kind.__struct_config__
    return defstruct(
        kind.__name__, members, forbid_unknown_fields=True, tag_field=config.tag_field, tag=config.tag,
        rename={field.name: field.encode_name for field in fields(kind)},
    )  # fmt: skip


def _twinned(annotation: Any) -> Any:
    if annotation in tuple(_below(annotation)):
        return _twin(annotation)
    origin: Any = get_origin(annotation)
    arguments = tuple(_twinned(one) for one in get_args(annotation))
    if origin is types.UnionType:
        return Union[arguments]  # noqa: UP007  built at run time
    return origin[arguments] if arguments else annotation


def _choices(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) is types.UnionType else (annotation,)
