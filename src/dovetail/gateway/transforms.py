"""What is shown, and under which names: one view of the components, for lists and for their use alike.

A view changes definitions on their way out (`shown`) and calls on their way in (`inner`, `arguments`), so that what is
listed is exactly what can be used. `transform_chain.py` puts the views of a server one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from ..errors import ProtocolError, RegistrationError
from ..json_schema.references import Schema
from ..server.composition import ListName
from ..server.registry.uri_templates import UriTemplate
from ..wire.headers import ANNOTATION
from .selectors import KINDS, Selection, Traits, named, speaks_of


class View:
    """What one `Server.transform` makes of what is shown."""

    def __init__(
        self,
        *,
        include: Iterable[str] | None = None,
        exclude: Iterable[str] = (),
        rename: Mapping[str, str] | None = None,
        describe: Mapping[str, str] | None = None,
        hide: Mapping[str, Collection[str]] | None = None,
        preset_arguments: Mapping[str, Mapping[str, Any]] | None = None,
        default: Mapping[str, Mapping[str, Any]] | None = None,
        rename_arguments: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._include = None if include is None else Selection(include)
        self._exclude = Selection(exclude)
        self._limited = {
            kind
            for kind in KINDS
            if self._include is not None
            and (speaks_of(self._include.words, kind) or (kind == "tools" and not self._include.words))
        }
        """The kinds of which only some are shown."""
        self._renamed = {kind: _of_kind(rename or {}, kind) for kind in KINDS}
        self._inner = {
            kind: {new: old for old, new in names.items()} for kind, names in self._renamed.items()
        }
        for kind, names in self._renamed.items():
            if len(self._inner[kind]) != len(names):
                raise RegistrationError(f"two {kind} would have one name: rename them differently")
        self.families = [Family(old, new) for old, new in self._renamed["templates"].items() if "{" in old]
        """The templates whose addresses are others now."""
        self._described = {kind: _of_kind(describe or {}, kind) for kind in KINDS}
        self._preset: dict[str, dict[str, Any]] = {
            name: dict(given) for name, given in (preset_arguments or {}).items()
        }
        hidden = {name: frozenset(given) for name, given in (hide or {}).items()}
        self._hidden = {
            name: hidden.get(name, frozenset()) | self._preset.get(name, {}).keys()
            for name in {*hidden, *self._preset}
        }
        self._defaults = {name: dict(given) for name, given in (default or {}).items()}
        self._moved = {name: _moved(name, given) for name, given in (rename_arguments or {}).items()}

    @property
    def by_traits(self) -> bool:
        """Whether more than its name decides if something is shown."""
        return self._exclude.by_traits or (self._include is not None and self._include.by_traits)

    def concerns(self, kind: ListName) -> bool:
        """Whether it changes anything of this kind."""
        names = [*self._described[kind], *self._renamed[kind], *self._exclude.names(kind)]
        address = kind in ("resources", "templates")
        may = any(not address or ":" in name for name in names)
        return may or kind in self._limited or self._exclude.by_traits

    @property
    def moves(self) -> bool:
        """Whether an address is called something else after it."""
        return any(":" in name for name in (*self._renamed["resources"], *self._renamed["templates"]))

    def inner_uri(self, uri: str) -> str | None:
        """The address that something has before this view; None for one that is called something else now."""
        if uri in self._inner["resources"]:
            return self._inner["resources"][uri]
        found = next((inner for family in self.families if (inner := family.inner(uri)) is not None), uri)
        return found if self.outer_uri(found) == uri else None

    def outer_uri(self, uri: str) -> str:
        """The address that something has after this view."""
        if uri in self._renamed["resources"]:
            return self._renamed["resources"][uri]
        return next((outer for family in self.families if (outer := family.outer(uri)) is not None), uri)

    def inner(self, name: str, kind: ListName = "tools") -> str | None:
        """The name that something has before this view; None for one that is called something else now."""
        inner = self._inner[kind].get(name, name)
        return inner if self._renamed[kind].get(inner, inner) == name else None

    def outer(self, name: str, kind: ListName = "tools") -> str:
        """The name that something has after this view."""
        return self._renamed[kind].get(name, name)

    def admits(self, name: str, traits: Traits) -> bool:
        """Whether it shows what is called ``name`` before it."""
        return self.chooses(name, traits) and self.taker(name, traits.kind) is None

    def chooses(self, name: str, traits: Traits) -> bool:
        """Whether ``include`` and ``exclude`` leave it in."""
        if traits.kind in self._limited and self._include is not None and not self._include.has(name, traits):
            return False
        return not self.leaves_out(name, traits)

    def taker(self, name: str, kind: ListName) -> str | None:
        """Who is given the name that something would have after this view; None where it keeps it."""
        taker = self._inner[kind].get(self.outer(name, kind), name)
        return None if taker == name else taker

    def leave_name(self, name: str, kind: ListName) -> None:
        """Nothing of this kind is meant by ``name`` in ``rename``."""
        del self._inner[kind][self._renamed[kind].pop(name)]

    def leaves_out(self, name: str, traits: Traits) -> bool:
        """Whether it is named among those that are not shown."""
        return self._exclude.has(name, traits)

    @property
    def left_out(self) -> frozenset[str]:
        """The addresses that are named among those that are not shown."""
        return self._exclude.names("resources")

    def shown(self, definition: Any, name: str, kind: ListName = "tools") -> Any:
        """A definition that is called ``name`` before this view, as it is after it; its own name is left as it is."""
        changes: dict[str, Any] = {}
        if name in self._described[kind]:
            changes["description"] = self._described[kind][name]
        if kind == "tools" and name in (self._hidden.keys() | self._defaults.keys() | self._moved.keys()):
            changes["input_schema"] = self._schema(name, definition.input_schema)
        return replace(definition, **changes) if changes else definition

    def _schema(self, name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The schema of arguments as it is after this view."""
        hidden, defaults = self._hidden.get(name, frozenset()), self._defaults.get(name, {})
        moved = self._moved.get(name, {})
        members: dict[str, Any] = {}
        there: Mapping[str, Any] = schema.get("properties") or {}
        for argument, one in there.items():
            if argument in hidden or (argument in moved.values() and argument not in moved):
                continue  # one that had the name by itself makes room
            if argument in moved and isinstance(one, Mapping):
                # A header is checked against the argument that it repeats, which has another name behind.
                one = {key: value for key, value in cast("Schema", one).items() if key != ANNOTATION}
            if argument in defaults:
                one = {
                    **(cast("Schema", one) if isinstance(one, Mapping) else {}),
                    "default": defaults[argument],
                }
            members[moved.get(argument, argument)] = one
        found = {**schema, "properties": members}
        if "required" in schema:
            kept: list[str] = [one for one in schema["required"] if one not in defaults]
            found["required"] = [new for one in kept if (new := moved.get(one, one)) in members]
        return found

    def arguments(self, name: str, arguments: Any) -> Any:
        """The arguments with those that are fixed, under the names of before; what is hidden cannot be given.

        Raises:
            ProtocolError: one was given that is not there.
        """
        hidden, moved = self._hidden.get(name, frozenset()), self._moved.get(name, {})
        if not hidden and not moved and name not in self._defaults:
            return arguments
        given: Any = {} if arguments is UNSET else msgspec.json.decode(arguments)
        if not isinstance(given, dict):
            return arguments  # whoever reads them says what is wrong with them
        inner = {new: old for old, new in moved.items()}
        for argument in cast("dict[str, Any]", given):
            if argument not in inner and (argument in moved or argument in hidden):
                raise ProtocolError(
                    "invalid_params", f"Unknown argument: {argument}", data={"argument": argument}
                )
        taken = {inner.get(key, key): value for key, value in cast("dict[str, Any]", given).items()}
        return Raw(
            msgspec.json.encode({**self._defaults.get(name, {}), **taken, **self._preset.get(name, {})})
        )


def _moved(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """What the arguments of a tool are called from now on."""
    if len(set(given.values())) != len(given):
        raise RegistrationError(f"two arguments of {name!r} would have one name")
    return dict(given)


class Family:
    """The addresses of a template that is called something else: they change as far as its first variable.

    Raises:
        RegistrationError: more of it would change, and could not be undone.
    """

    def __init__(self, old: str, new: str) -> None:
        self._heads = (old.partition("{")[0], new.partition("{")[0])
        if old[len(self._heads[0]) :] != new[len(self._heads[1]) :]:
            raise RegistrationError(
                f"{old!r} cannot be called {new!r}: only what comes before the first variable may change"
            )
        self._templates = (UriTemplate(old), UriTemplate(new))

    def outer(self, uri: str) -> str | None:
        """What an address of the family is called after the view; None for others."""
        return self._moved(uri, 0)

    def inner(self, uri: str) -> str | None:
        """What it is called before the view."""
        return self._moved(uri, 1)

    def _moved(self, uri: str, side: int) -> str | None:
        if self._templates[side].match(uri) is None:
            return None
        return self._heads[1 - side] + uri[len(self._heads[side]) :]


def _of_kind(given: Mapping[str, str], kind: ListName) -> dict[str, str]:
    found = {named(word, kind): value for word, value in given.items()}
    return {name: value for name, value in found.items() if name is not None}
