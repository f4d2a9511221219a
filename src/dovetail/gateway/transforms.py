"""`View`: one `Server.transform` that includes, renames and describes components.

A view maps definitions on their way out (`shown`) and calls on their way in (`inner`, `arguments`). Exactly
the listed components can be used. `transform_chain` applies the views of a server in order.
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
    """The mapping of one `Server.transform`."""

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
        """Kinds that ``include`` limits."""
        self._renamed = {kind: _of_kind(rename or {}, kind) for kind in KINDS}
        self._inner = {
            kind: {new: old for old, new in names.items()} for kind, names in self._renamed.items()
        }
        for kind, names in self._renamed.items():
            if len(self._inner[kind]) != len(names):
                raise RegistrationError(f"two {kind} would get the same name; choose different names")
        self.families = [
            TemplateRename(old, new) for old, new in self._renamed["templates"].items() if "{" in old
        ]
        """Templates with changed URIs."""
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
        """Return whether tags or versions decide about the list."""
        return self._exclude.by_traits or (self._include is not None and self._include.by_traits)

    def concerns(self, kind: ListName) -> bool:
        """Return whether it changes anything of ``kind``."""
        names = [*self._described[kind], *self._renamed[kind], *self._exclude.names(kind)]
        address = kind in ("resources", "templates")
        may = any(not address or ":" in name for name in names)
        return may or kind in self._limited or self._exclude.by_traits

    @property
    def moves(self) -> bool:
        """Return whether it changes URIs."""
        return any(":" in name for name in (*self._renamed["resources"], *self._renamed["templates"]))

    def inner_uri(self, uri: str) -> str | None:
        """Return the URI before this view; None if it was renamed."""
        if uri in self._inner["resources"]:
            return self._inner["resources"][uri]
        found = next((inner for family in self.families if (inner := family.inner(uri)) is not None), uri)
        return found if self.outer_uri(found) == uri else None

    def outer_uri(self, uri: str) -> str:
        """Return the URI after this view."""
        if uri in self._renamed["resources"]:
            return self._renamed["resources"][uri]
        return next((outer for family in self.families if (outer := family.outer(uri)) is not None), uri)

    def inner(self, name: str, kind: ListName = "tools") -> str | None:
        """Return the name before this view; None if it was renamed."""
        inner = self._inner[kind].get(name, name)
        return inner if self._renamed[kind].get(inner, inner) == name else None

    def outer(self, name: str, kind: ListName = "tools") -> str:
        """Return the name after this view."""
        return self._renamed[kind].get(name, name)

    def admits(self, name: str, traits: Traits) -> bool:
        """Return whether it lists the component with this inner name."""
        return self.chooses(name, traits) and self.taker(name, traits.kind) is None

    def chooses(self, name: str, traits: Traits) -> bool:
        """Return whether ``include`` and ``exclude`` keep it."""
        if traits.kind in self._limited and self._include is not None and not self._include.has(name, traits):
            return False
        return not self.leaves_out(name, traits)

    def taker(self, name: str, kind: ListName) -> str | None:
        """Return the component that is renamed to this name, or None."""
        taker = self._inner[kind].get(self.outer(name, kind), name)
        return None if taker == name else taker

    def leave_name(self, name: str, kind: ListName) -> None:
        """Ignore ``name`` in ``rename`` for this kind."""
        del self._inner[kind][self._renamed[kind].pop(name)]

    def leaves_out(self, name: str, traits: Traits) -> bool:
        """Return whether ``exclude`` names it."""
        return self._exclude.has(name, traits)

    @property
    def left_out(self) -> frozenset[str]:
        """Return the URIs that ``exclude`` names."""
        return self._exclude.names("resources")

    def shown(self, definition: Any, name: str, kind: ListName = "tools") -> Any:
        """Map the definition with the inner name ``name``; its own name is unchanged."""
        changes: dict[str, Any] = {}
        if name in self._described[kind]:
            changes["description"] = self._described[kind][name]
        if kind == "tools" and name in (self._hidden.keys() | self._defaults.keys() | self._moved.keys()):
            changes["input_schema"] = self._schema(name, definition.input_schema)
        return replace(definition, **changes) if changes else definition

    def _schema(self, name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Map the schema of the arguments."""
        hidden, defaults = self._hidden.get(name, frozenset()), self._defaults.get(name, {})
        moved = self._moved.get(name, {})
        members: dict[str, Any] = {}
        there: Mapping[str, Any] = schema.get("properties") or {}
        for argument, one in there.items():
            if argument in hidden or (argument in moved.values() and argument not in moved):
                continue  # replaced by the renamed argument
            if argument in moved and isinstance(one, Mapping):
                # The header is validated against the original argument name.
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
        """Map arguments to their inner names and add preset ones.

        Raises:
            ProtocolError: an argument is unknown or hidden.
        """
        hidden, moved = self._hidden.get(name, frozenset()), self._moved.get(name, {})
        if not hidden and not moved and name not in self._defaults:
            return arguments
        given: Any = {} if arguments is UNSET else msgspec.json.decode(arguments)
        if not isinstance(given, dict):
            return arguments  # validation reports the error
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
    """Return the inner name by outer name of the arguments of a tool."""
    if len(set(given.values())) != len(given):
        raise RegistrationError(f"two arguments of {name!r} would get the same name")
    return dict(given)


class TemplateRename:
    """A renamed template and its URIs: they change up to the first variable.

    Raises:
        RegistrationError: more than that would change, which is not reversible.
    """

    def __init__(self, old: str, new: str) -> None:
        self._heads = (old.partition("{")[0], new.partition("{")[0])
        if old[len(self._heads[0]) :] != new[len(self._heads[1]) :]:
            raise RegistrationError(
                f"{old!r} cannot be renamed to {new!r}: only the part before the first variable may change"
            )
        self._templates = (UriTemplate(old), UriTemplate(new))

    def outer(self, uri: str) -> str | None:
        """Return the outer URI, or None if it does not match the template."""
        return self._moved(uri, 0)

    def inner(self, uri: str) -> str | None:
        """Return the inner URI, or None if it does not match the template."""
        return self._moved(uri, 1)

    def _moved(self, uri: str, side: int) -> str | None:
        if self._templates[side].match(uri) is None:
            return None
        return self._heads[1 - side] + uri[len(self._heads[side]) :]


def _of_kind(given: Mapping[str, str], kind: ListName) -> dict[str, str]:
    found = {named(word, kind): value for word, value in given.items()}
    return {name: value for name, value in found.items() if name is not None}
