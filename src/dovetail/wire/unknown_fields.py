"""Members that no definition knows: found in what came, and put back into what goes on in its place.

Definitions ignore what they do not know. Whoever passes messages on between revisions must not: what a revision cannot
say is left out by its edits, and all that nobody here knows goes through. Whether there is anything of the kind is one
more decode, with types that refuse unknown members and take nothing apart that need not be (`holds`). Only if there is
are the two forms laid beside each other (`carried`).
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

CAME: Final = "dovetail/came"
"""The member of ``_meta`` that keeps what came with something until it is written again. It never travels."""

_SAID: Final = (
    CreateMessageRequestParams,
    ElicitRequestParams,
    LoggingMessageNotificationParams,
    ProgressNotificationParams,
)
"""What a server says by itself. (What a client asks goes with its call, see `Call.raw_params`.)"""

_members: Callable[[bytes | Raw], dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw]).decode
_items: Callable[[bytes | Raw], list[Raw]] = msgspec.json.Decoder(list[Raw]).decode
_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.encode


class Came(Struct, frozen=True):
    """Something as a peer wrote it; a type of its own, so that no peer can make one."""

    data: Raw


def holds(kind: type[Struct], data: bytes | Raw) -> bool:
    """Whether ``data``, which can be read as ``kind``, has members or blocks in it that nobody knows."""
    try:
        _strict(kind)(data)
    except ValidationError:
        return True
    return False


def carried(kind: type[Struct], came: bytes | Raw, goes: bytes | Raw) -> bytes:
    """``goes``, which was made of ``came``, with all that ``kind`` and the types in it do not know."""
    found, known = _members(goes), _shape(kind)
    for name, value in _members(came).items():
        below = known.get(name)
        if below is None:
            found.setdefault(name, value)
        elif below and name in found:
            found[name] = _beside(below, value, found[name])
    return _encode(found)


def _beside(below: tuple[type[Struct], ...], came: Raw, goes: Raw) -> Raw:
    """One member of both that holds things of the types ``below``."""
    first, second = bytes(came)[:1], bytes(goes)[:1]
    if first == second == b"[":
        ours, theirs = _items(goes), _items(came)
        if len(ours) != len(theirs):
            return goes  # it has another form now
        return Raw(_encode([_beside(below, *pair) for pair in zip(theirs, ours, strict=True)]))
    if first != b"{" or second != b"{":
        return goes
    kind = _kind_of(below, came)
    if kind is None:
        return came  # a block of a type that nobody knows
    return Raw(carried(kind, came, goes)) if _kind_of(below, goes) is kind else goes


def _kind_of(below: tuple[type[Struct], ...], data: Raw) -> type[Struct] | None:
    """Which of the types an object is: by its tag, where they have some."""
    field = below[0].__struct_config__.tag_field
    if field is None:
        return below[0]
    said = _members(data).get(field)
    tag = _text(said) if said is not None and bytes(said)[:1] == b'"' else None
    return next((kind for kind in below if kind.__struct_config__.tag == tag), None)


# --- keeping it with what was read --------------------------------------------------------------------------------


def keeping(kind: Any, decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``decode``, for what is of ``kind``: it keeps what came where there is something that nobody knows."""
    if not (isinstance(kind, type) and issubclass(kind, (Result, *_SAID))):
        return decode
    if kind is InputRequiredResult:
        return partial(_keeping_questions, decode)
    if issubclass(kind, PaginatedResult):
        return _keeping_entries(kind, decode)

    def read(data: Any) -> Any:
        result = decode(data)
        return kept(result, data) if holds(kind, data) else result

    return read


def kept(result: Any, data: bytes | Raw) -> Any:
    """``result``, or an entry of a list, with all that came."""
    result.meta = {**(result.meta or {}), CAME: Came(Raw(bytes(data)))}
    return result


def _keeping_entries(kind: type[Struct], decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    member = _entries_of(kind)
    if member is None:
        return decode

    def read(data: Any) -> Any:
        result = decode(data)
        if holds(kind, data):
            entries: list[Any] = getattr(result, member[0])
            for entry, came in zip(entries, _items(_members(data)[member[1]]), strict=True):
                if holds(entry.__class__, came):
                    kept(entry, came)
        return result

    return read


def _keeping_questions(decode: Callable[[Any], Any], data: Any) -> Any:
    result = decode(data)
    if result.input_requests:
        came = _members(_members(data)["inputRequests"])
        for key, request in result.input_requests.items():
            if isinstance(request.params, _SAID) and holds(
                type(request.params), asked := _members(came[key])["params"]
            ):
                kept(request.params, asked)
    return result


def forgotten(value: Any) -> Any:
    """The same value without what was kept of it."""
    return _parted(value)[0]


def only_kept(value: Any) -> Any:
    """What was kept of a value, as its metadata; nothing else of that."""
    came = _parted(value)[1]
    return UNSET if came is None else {CAME: Came(came)}


def whole(value: Any) -> Any:
    """A value to be written with what was kept of it, as it is."""
    return written(value, lambda one: one)


def written(value: Any, write: Callable[[Any], Any]) -> Any:
    """What ``write`` makes of a result or of params, with what was kept of it, of its entries or its questions."""
    if value.__class__ is Raw or not isinstance(value, Struct):
        return write(value)
    if value.__class__ is InputRequiredResult:
        return _written_questions(value, write)
    member = _entries_of(type(value)) if isinstance(value, PaginatedResult) else None
    if member is None:
        plain, came = _parted(value)
        return write(value) if came is None else Raw(carried(value.__class__, came, _encode(write(plain))))
    listed: list[Any] = getattr(value, member[0])
    parts = [_parted(entry) for entry in listed]
    if all(came is None for _, came in parts):
        return write(value)
    page = _members(_encode(write(replace(value, **{member[0]: [entry for entry, _ in parts]}))))
    pairs = zip(parts, _items(page[member[1]]), strict=True)
    entries = [
        goes if came is None else Raw(carried(one.__class__, came, goes)) for (one, came), goes in pairs
    ]
    return {**page, member[1]: entries}


def _written_questions(value: Any, write: Callable[[Any], Any]) -> Any:
    asked: dict[str, Any] = value.input_requests or {}
    parts = {key: _parted(request.params) for key, request in asked.items()}
    if all(came is None for _, came in parts.values()):
        return write(value)
    plain = {key: replace(request, params=parts[key][0]) for key, request in asked.items()}
    result = _members(_encode(write(replace(value, input_requests=plain))))
    requests = {key: _members(request) for key, request in _members(result["inputRequests"]).items()}
    for key, (params, came) in parts.items():
        if came is not None:
            requests[key]["params"] = Raw(carried(params.__class__, came, requests[key]["params"]))
    return {**result, "inputRequests": requests}


def _parted(value: Any) -> tuple[Any, Raw | None]:
    meta: Any = getattr(value, "meta", UNSET)
    came = meta.get(CAME) if meta else None
    if type(came) is not Came:
        return value, None
    rest = {name: other for name, other in meta.items() if name != CAME}
    return replace(value, meta=rest or UNSET), came.data


# --- types --------------------------------------------------------------------------------------------------------


@cache
def _entries_of(kind: type[Struct]) -> tuple[str, str] | None:
    """The member of a page that holds its entries: as an attribute, and as it travels."""
    found = [field for field in fields(kind) if list in (get_origin(one) for one in _choices(field.type))]
    return (found[0].name, found[0].encode_name) if len(found) == 1 else None


@cache
def _shape(kind: type[Struct]) -> Mapping[str, tuple[type[Struct], ...]]:
    """The members that ``kind`` knows, as they travel, and the types that may be in each."""
    known = {field.encode_name: tuple(_below(field.type)) for field in fields(kind)}
    tag = kind.__struct_config__.tag_field
    return known if tag is None else {**known, tag: ()}


def _below(annotation: Any) -> Iterator[type[Struct]]:
    """The definitions in an annotation, alone or in lists; what is in mappings is not told apart."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        yield annotation
    elif get_origin(annotation) is not dict:
        for one in get_args(annotation):
            yield from _below(one)


@cache
def _strict(kind: type[Struct]) -> Callable[[bytes | Raw], Any]:
    """Reads ``kind`` and refuses what it does not know. What has no definitions in it stays as it is."""
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
        return Union[arguments]  # noqa: UP007  one that is put together at run time
    return origin[arguments] if arguments else annotation


def _choices(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) is types.UnionType else (annotation,)
