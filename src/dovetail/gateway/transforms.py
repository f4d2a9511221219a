"""What is shown, and under which names: one view of the tools, for lists and for calls alike.

A view changes tools on their way out (`shown`) and calls on their way in (`inner`, `arguments`), so that what is
listed is exactly what can be called. `shaping.py` puts the views of a server one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from ..errors import ProtocolError, RegistrationError
from ..model import Tool
from .selecting import Selection, Traits


class View:
    """What one `Server.transform` makes of what is shown."""

    def __init__(
        self,
        *,
        only: Iterable[str] | None = None,
        without: Iterable[str] = (),
        rename: Mapping[str, str] | None = None,
        describe: Mapping[str, str] | None = None,
        hide: Mapping[str, Collection[str]] | None = None,
        fix: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._only = None if only is None else Selection(only)
        self._without = Selection(without)
        self._renamed = dict(rename or {})
        self._inner = {new: old for old, new in self._renamed.items()}
        if len(self._inner) != len(self._renamed):
            raise RegistrationError("two tools would have one name: rename them differently")
        self._described = dict(describe or {})
        self._fixed: dict[str, dict[str, Any]] = {name: dict(given) for name, given in (fix or {}).items()}
        hidden = {name: frozenset(given) for name, given in (hide or {}).items()}
        self._hidden = {
            name: hidden.get(name, frozenset()) | self._fixed.get(name, {}).keys()
            for name in {*hidden, *self._fixed}
        }

    @property
    def by_traits(self) -> bool:
        """Whether more than its name decides if a tool is shown."""
        return self._without.by_traits or (self._only is not None and self._only.by_traits)

    def inner(self, name: str) -> str | None:
        """The name that a tool has before this view; None for one that is called something else now."""
        inner = self._inner.get(name, name)
        return inner if self._renamed.get(inner, inner) == name else None

    def outer(self, name: str) -> str:
        """The name that a tool has after this view."""
        return self._renamed.get(name, name)

    def admits(self, name: str, traits: Traits) -> bool:
        """Whether it shows a tool that is called ``name`` before it."""
        if self._only is not None and not self._only.has(name, traits):
            return False
        # One that had the name by itself makes room for the one that was given it.
        return not self._without.has(name, traits) and self._inner.get(self.outer(name), name) == name

    def shown(self, tool: Tool, name: str) -> Tool:
        """A tool that is called ``name`` before this view, as it is after it; its own name is left as it is."""
        changes: dict[str, Any] = {}
        if name in self._described:
            changes["description"] = self._described[name]
        if name in self._hidden:
            changes["input_schema"] = _without(tool.input_schema, self._hidden[name])
        return replace(tool, **changes) if changes else tool

    def arguments(self, name: str, arguments: Any) -> Any:
        """The arguments with those that are fixed; what is hidden cannot be given.

        Raises:
            ProtocolError: one was given that is not there.
        """
        if name not in self._hidden:
            return arguments
        given: Any = {} if arguments is UNSET else msgspec.json.decode(arguments)
        if not isinstance(given, dict):
            return arguments  # whoever reads them says what is wrong with them
        given = cast("dict[str, Any]", given)
        if unknown := sorted(given.keys() & self._hidden[name]):
            raise ProtocolError(
                "invalid_params", f"Unknown argument: {unknown[0]}", data={"argument": unknown[0]}
            )
        return Raw(msgspec.json.encode({**given, **self._fixed.get(name, {})}))


def _without(schema: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """A schema of arguments without some of them."""
    members: Mapping[str, Any] = schema.get("properties") or {}
    left = {**schema, "properties": {name: one for name, one in members.items() if name not in names}}
    if "required" in schema:
        left["required"] = [name for name in schema["required"] if name not in names]
    return left
