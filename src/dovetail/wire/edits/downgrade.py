"""From edit tables to plans: what one type loses on one revision, worked out once.

A table says for each model type which members to leave out and which function to pass it through. `Sieve`
merges the tables that apply to a revision and answers, for any value, "the same value as that revision knows
it". Types without edits, themselves and everything below them, cost one dict lookup. Nothing is changed in
place: registered tools and cached results are shared between connections of different revisions.
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
"""No plan has been made for the type yet."""


class Edits(Struct, frozen=True):
    """What one revision brought, seen by those before it; or what it took away, seen by itself and later ones."""

    without: Mapping[type, tuple[str, ...]] = types.MappingProxyType({})
    """Members to leave out, by the name of the attribute; subclasses inherit the entry."""
    convert: Mapping[type, Converter] = types.MappingProxyType({})
    """Functions from a value to its older form; they apply to the type itself, not to its subclasses."""


class Plan(Struct, frozen=True):
    """What happens to values of one type."""

    without: tuple[str, ...]
    below: tuple[str, ...]
    """Members that may hold values with plans of their own."""
    converters: tuple[Converter, ...]


class Shortcut(Struct, frozen=True):
    """How values of one type are edited as they were written, where nothing inside of them has to be."""

    without: frozenset[str]
    """Members of the value itself to leave out, as they travel."""
    rewrite: tuple[Callable[[dict[str, Raw]], None], ...]
    """What its own conversions do to its members."""
    needles: tuple[bytes, ...]
    """What values hold that have to be taken apart."""


class Sieve:
    """Values as one revision knows them. ``tables`` run from the newest revision to the oldest."""

    def __init__(self, *tables: Edits) -> None:
        self._tables = tables
        self._plans: dict[type, Plan | None] = {}
        self._below: dict[type, frozenset[type]] = {}
        self._shortcuts: dict[type, Shortcut | None] = {}

    def edit(self, value: Any) -> Any:
        """The same value with nothing in it that the revision does not know."""
        kind: Any = value.__class__
        try:
            plan = self._plans[kind]
        except KeyError:
            plan = self._plans[kind] = self._plan(kind)
        if plan is None:
            return value
        # Conversions come first: they may need what the older form has no member for.
        for convert in plan.converters:
            value = convert(value)
            if type(value) is not kind:
                # It became something else, which may have edits of its own.
                return self.edit(value)
        changes: dict[str, Any] = {}
        for name in plan.without:
            if getattr(value, name) is not UNSET:
                changes[name] = UNSET
        for name in plan.below:
            before = getattr(value, name)
            # No subclasses: capabilities have a plan of their own.
            items = before.__class__ is list or before.__class__ is dict
            after = self._edit_items(before) if items else self.edit(before)
            if after is not before:
                changes[name] = after
        return replace(value, **changes) if changes else value

    def touches(self, kind: type) -> bool:
        """Whether values of this type, or of any type below it, may be edited."""
        if kind not in self._below:
            self._below[kind] = frozenset(_reachable(kind))
        return any(
            any(base in table.without for base in other.__mro__) or other in table.convert
            for other in self._below[kind]
            for table in self._tables
        )

    def needles(self, kind: type) -> tuple[bytes, ...]:
        """What values of ``kind`` hold, as we write them, in which something may have to be edited."""
        short = self._shortcut(kind)
        if short is None or short.rewrite:
            return (b"",)  # all of them do
        return (*short.needles, *(b'"%b"' % name.encode() for name in short.without))

    def passed(self, kind: type, data: bytes) -> bytes | None:
        """``data``, a value of ``kind`` as its peer wrote it, as the revision knows it; None: it has to be read."""
        try:
            short = self._shortcuts[kind]
        except KeyError:
            short = self._shortcuts[kind] = self._shortcut(kind)
        # A name may be written with escapes, too: then nothing can be told from the bytes.
        if short is None or b"\\u" in data:
            return None
        for needle in short.needles:
            if data.find(needle) >= 0:
                return None
        members = _members(data)
        for name in short.without:
            members.pop(name, None)
        for rewrite in short.rewrite:
            rewrite(members)
        return msgspec.json.encode(members)

    def _shortcut(self, kind: type) -> Shortcut | None:
        """What the tables say of ``kind`` and all below it, in names as they travel; None: that cannot be told."""
        if not (isinstance(kind, type) and issubclass(kind, Struct)):  # pyright: ignore[reportUnnecessaryIsInstance]
            return None  # a `Reader` stands there
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
                needles |= dict.fromkeys(_travelling(other, self._without(other)))
        wanted = tuple(b'"%b"' % name.encode() for name in needles)
        return Shortcut(frozenset(_travelling(kind, self._without(kind))), tuple(rewrite), wanted)

    def _edit_items(self, container: Any) -> Any:
        """The list or dict with its items edited; the very same when there was nothing to edit.

        Every result of a legacy client comes through here, so it calls nothing it need not.
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

    def _plan(self, kind: type) -> Plan | None:
        without = tuple(dict.fromkeys(self._without(kind)))
        converters = tuple(table.convert[kind] for table in self._tables if kind in table.convert)
        below = tuple(
            name
            for name, types_below in _member_types(kind).items()
            if name not in without and any(self.touches(other) for other in types_below)
        )
        return Plan(without, below, converters) if without or below or converters else None

    def _without(self, kind: type) -> Iterator[str]:
        for table in self._tables:
            for base in kind.__mro__:
                yield from table.without.get(base, ())


def _travelling(kind: type, names: Iterable[str]) -> list[str]:
    """Members as they travel."""
    wanted = set(names)
    return [field.encode_name for field in fields(kind) if field.name in wanted] if wanted else []


def _member_types(kind: type) -> dict[str, set[type]]:
    if not issubclass(kind, Struct):
        return {}
    return {field.name: set(_types_in(field.type)) for field in fields(kind)}


def _types_in(annotation: Any) -> Iterator[type]:
    """The classes an annotation mentions: ``list[A | B]`` gives A and B."""
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
