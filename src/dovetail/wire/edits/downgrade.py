"""Downgrade values to an older revision, using plans compiled from the edit tables.

A table lists for each model type the members to remove and the conversion function. `Downgrade` merges the
tables that apply to a revision. Types without edits, including all nested types, cost one dict lookup. Values
are never changed in place: registered tools and cached results are shared between connections of different
revisions.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import fields, replace

Converter = Callable[[Any], Any]

_members: Callable[[bytes], dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw]).decode
_UNKNOWN: Any = object()
"""No plan has been compiled for the type yet."""


class Edits(Struct, frozen=True):
    """The differences of one revision: what earlier revisions lack, or what this and later revisions removed."""

    without: Mapping[type, tuple[str, ...]] = types.MappingProxyType({})
    """Attributes to remove; subclasses inherit the entry."""
    convert: Mapping[type, Converter] = types.MappingProxyType({})
    """Functions that convert a value to its older form. They apply to the type itself, not to subclasses."""


class DowngradePlan(Struct, frozen=True):
    """The edits for values of one type."""

    without: tuple[str, ...]
    below: tuple[str, ...]
    """Members that may contain values with their own plans."""
    converters: tuple[Converter, ...]


class EncodedEdits(Struct, frozen=True):
    """The edits for encoded values of one type, if no nested value needs edits."""

    without: frozenset[str]
    """JSON names of members to remove."""
    rewrite: tuple[Callable[[dict[str, Raw]], None], ...]
    """Conversions of its members."""
    needles: tuple[bytes, ...]
    """Byte strings that reveal values that must be decoded for editing."""


class Downgrade:
    """Downgrades values to one revision. ``tables`` are ordered from the newest revision to the oldest."""

    def __init__(self, *tables: Edits) -> None:
        self._tables = tables
        self._plans: dict[type, DowngradePlan | None] = {}
        self._below: dict[type, frozenset[type]] = {}
        self._shortcuts: dict[type, EncodedEdits | None] = {}

    def edit(self, value: Any) -> Any:
        """Return the value without anything that the revision does not define."""
        kind: Any = value.__class__
        try:
            plan = self._plans[kind]
        except KeyError:
            plan = self._plans[kind] = self._plan(kind)
        if plan is None:
            return value
        # Conversions run first: they may need members that the older form lacks.
        for convert in plan.converters:
            value = convert(value)
            if type(value) is not kind:
                # The converted value may have its own edits.
                return self.edit(value)
        changes: dict[str, Any] = {}
        for name in plan.without:
            if getattr(value, name) is not UNSET:
                changes[name] = UNSET
        for name in plan.below:
            before = getattr(value, name)
            # No subclasses: capabilities have their own plan.
            items = before.__class__ is list or before.__class__ is dict
            after = self._edit_items(before) if items else self.edit(before)
            if after is not before:
                changes[name] = after
        return replace(value, **changes) if changes else value

    def has_edits(self, kind: type) -> bool:
        """Whether values of this type, or of nested types, may be edited."""
        if kind not in self._below:
            self._below[kind] = frozenset(_reachable(kind))
        return any(
            any(base in table.without for base in other.__mro__) or other in table.convert
            for other in self._below[kind]
            for table in self._tables
        )

    def needles(self, kind: type) -> tuple[bytes, ...]:
        """Return byte strings that reveal, in encoded values of ``kind``, something to edit."""
        short = self._encoded_edits(kind)
        if short is None or short.rewrite:
            return (b"",)  # matches every value
        return (*short.needles, *(b'"%b"' % name.encode() for name in short.without))

    def convert_encoded(self, kind: type, data: bytes) -> bytes | None:
        """Convert ``data``, an encoded value of ``kind``; None: it must be decoded first."""
        try:
            short = self._shortcuts[kind]
        except KeyError:
            short = self._shortcuts[kind] = self._encoded_edits(kind)
        # Names may contain escapes. Then the bytes reveal nothing.
        if short is None or b"\\u" in data:
            return None
        for needle in short.needles:
            if data.find(needle) >= 0:
                return None
        members = _members(data)
        # Conversions run first: they may need members that the older form lacks.
        for rewrite in short.rewrite:
            rewrite(members)
        for name in short.without:
            members.pop(name, None)
        return msgspec.json.encode(members)

    def _encoded_edits(self, kind: type) -> EncodedEdits | None:
        """Return the edits for encoded values of ``kind``; None if nested values need edits."""
        if not (isinstance(kind, type) and issubclass(kind, Struct)):  # pyright: ignore[reportUnnecessaryIsInstance]
            return None  # a `Reader` is used instead
        rewrite: list[Callable[[dict[str, Raw]], None]] = []
        needles: dict[str, None] = {}
        for other in _reachable(kind):
            for convert in (table.convert[other] for table in self._tables if other in table.convert):
                written = getattr(convert, "on_members", None) if other is kind else None
                tag = getattr(getattr(other, "__struct_config__", None), "tag", None)
                if written is not None:
                    rewrite.append(written)
                elif isinstance(tag, str):
                    needles[tag] = None
                else:
                    return None
            if other is not kind:
                needles |= dict.fromkeys(_json_names(other, self._without(other)))
        wanted = tuple(b'"%b"' % name.encode() for name in needles)
        return EncodedEdits(frozenset(_json_names(kind, self._without(kind))), tuple(rewrite), wanted)

    def _edit_items(self, container: Any) -> Any:
        """Edit the items of a list or dict. Returns the same object if nothing was edited.

        Hot path: every result for a legacy client is processed here.
        """
        plans = self._plans
        edited: Any = None
        for key, item in enumerate(container) if container.__class__ is list else container.items():
            kind: Any = item.__class__
            if plans.get(kind, _UNKNOWN) is None:
                continue
            after = self._edit_items(item) if kind is list or kind is dict else self.edit(item)
            if after is not item:
                if edited is None:
                    edited = container.copy()
                edited[key] = after
        return container if edited is None else edited

    def _plan(self, kind: type) -> DowngradePlan | None:
        without = tuple(dict.fromkeys(self._without(kind)))
        converters = tuple(table.convert[kind] for table in self._tables if kind in table.convert)
        below = tuple(
            name
            for name, types_below in _member_types(kind).items()
            if name not in without and any(self.has_edits(other) for other in types_below)
        )
        return DowngradePlan(without, below, converters) if without or below or converters else None

    def _without(self, kind: type) -> Iterator[str]:
        for table in self._tables:
            for base in kind.__mro__:
                yield from table.without.get(base, ())


def _json_names(kind: type, names: Iterable[str]) -> list[str]:
    """Return the JSON names of members."""
    wanted = set(names)
    return [field.encode_name for field in fields(kind) if field.name in wanted] if wanted else []


def _member_types(kind: type) -> dict[str, set[type]]:
    if not issubclass(kind, Struct):
        return {}
    return {field.name: set(_types_in(field.type)) for field in fields(kind)}


def _types_in(annotation: Any) -> Iterator[type]:
    """Yield the classes in an annotation: ``list[A | B]`` gives A and B."""
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for argument in get_args(annotation):
        yield from _types_in(argument)


def _reachable(kind: type) -> set[type]:
    seen: set[type] = set()
    todo = [kind]
    while todo:
        current = todo.pop()
        if current not in seen:
            seen.add(current)
            for types_below in _member_types(current).values():
                todo.extend(types_below)
    return seen
