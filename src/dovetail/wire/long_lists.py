"""Results with long lists in them, read and written a little at a time.

A decoder makes a whole value in one go, up to a second for the sixteen mebibytes that a message may have, and everybody
waits for it. So a long list is taken apart first, without reading its entries, and they are read a few at a time, each
few as a result of its own: whatever holds for a result holds for them. What is large without such a list, or in one
entry of it, is read at once.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterator
from functools import cache
from typing import Any, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, defstruct
from msgspec.structs import fields, replace

from ..errors import RemoteProtocolError
from ..model import PaginatedResult
from ..settings import LIST_ENTRIES, LONG_PIECE, READ_IN_TURN
from .codec import Codec
from .frames import UNREADABLE, encode
from .methods import Method

Decode = Callable[[bytes], Any]


class _Object(Struct, gc=False):
    """Anything that is an object, unread."""


_objects: Callable[[bytes], list[_Object]] = msgspec.json.Decoder(list[_Object]).decode
_split: Callable[[bytes], list[Raw]] = msgspec.json.Decoder(list[Raw]).decode


def decode_result(codec: Codec, method: Method, data: bytes) -> Generator[None, None, Any]:
    """`Codec.decode_result`, a step for each few entries."""
    kind: Any = (codec.revision.modern and method.modern_result) or method.result
    # What nobody knows is kept by the whole result, but in pages.
    if not isinstance(kind, type) or not issubclass(kind, PaginatedResult if codec.keeps else Struct):
        kind = None
    return decode(cast("type[Struct] | None", kind), data, lambda part: codec.decode_result(method, part))


def decode(kind: type[Struct] | None, data: bytes, read: Decode) -> Generator[None, None, Any]:
    """What ``read`` makes of ``data``, a ``kind`` if all is well."""
    member = None if kind is None or len(data) <= READ_IN_TURN else _listed(kind)
    raw = None if member is None else _outlined(member[1], data)
    yield
    parts = None if raw is None else _around(data, bytes(raw))
    if member is None or parts is None:
        return _uncollected(read, data)
    yield
    if parts[1].count(b",") > LIST_ENTRIES:  # before they are taken apart, which costs more
        _check(parts[1])
        yield
    items = _split(parts[1])
    yield
    before, after = parts[0], parts[2]
    whole = read(b"%b[]%b" % (before, after))
    if type(whole) is not kind:
        return read(data)
    every: list[Any] = getattr(whole, member[0])
    for few in _few(items, max(LONG_PIECE, 4 * (len(before) + len(after)))):
        yield
        every += getattr(_uncollected(read, b"%b[%b]%b" % (before, b",".join(few), after)), member[0])
    return whole


def _uncollected(read: Decode, part: bytes) -> Any:
    """``read(part)``, in the course of which nobody looks for circles: there are none, and each look takes longer."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return read(part)
    finally:
        if collecting:
            gc.enable()


def encoded(result: Struct) -> Generator[None, None, bytes]:
    """``result`` as JSON, as it can be read again."""
    member = _listed(type(result))
    entries: list[Any] = [] if member is None else getattr(result, member[0])
    if member is None or len(entries) <= 1:
        return encode(result)
    parts: list[bytes] = []
    for entry in entries:
        parts.append(encode(entry))
        yield
    return encode(replace(result, **{member[0]: Raw(b"[%b]" % b",".join(parts))}))


def _outlined(name: str, data: bytes) -> Raw | None:
    """The list as it stands there; None: nobody can tell, or most of ``data`` is something else."""
    try:
        raw = _outline(name)(data).entries
    except UNREADABLE:
        return None  # for the reader to say
    return None if raw is UNSET or len(data) - len(raw) > READ_IN_TURN else raw


def _around(data: bytes, entries: bytes) -> tuple[bytes, bytes, bytes] | None:
    """``data`` before ``entries``, these, and after them; None: they are no list, or not easily found."""
    if entries[:1] != b"[":
        return None
    at = data.find(entries[:LONG_PIECE])
    if not data.startswith(entries, at):
        return None  # it begins like another one before it: not worth a search that a server can make long
    return data[:at], entries, data[at + len(entries) :]


def _check(entries: bytes) -> None:
    """Raises RemoteProtocolError: they are too many, or one of them is no object."""
    try:
        if len(_objects(entries)) <= LIST_ENTRIES:
            return
        what = f"more than {LIST_ENTRIES} entries"
    except UNREADABLE:
        what = "entries that are no objects"
    raise RemoteProtocolError("validation_failed", f"the result is malformed: a list in it has {what}")


def _few(items: list[Raw], most: int) -> Iterator[list[Raw]]:
    """The items, so many at a time that they have ``most`` bytes together, or one that has more."""
    few: list[Raw] = []
    size = 0
    items.reverse()
    while items:
        size += len(items[-1])
        if few and size > most:
            yield few
            few, size = [], len(items[-1])
        few.append(items.pop())
    yield few


@cache
def _listed(kind: type[Struct]) -> tuple[str, str] | None:
    """The member that holds definitions in a list: as an attribute, and as it travels."""
    lists = [member for member in fields(kind) if get_origin(member.type) is list]
    found = [member for member in lists if get_args(member.type) != (str,)]
    return (found[0].name, found[0].encode_name) if len(found) == 1 else None


@cache
def _outline(name: str) -> Callable[[bytes], Any]:
    member = msgspec.field(default=UNSET, name=name)
    return msgspec.json.Decoder(defstruct("Outline", [("entries", Raw | UnsetType, member)])).decode
