"""What a server offers: one table per list, by name, in the order of registration.

Looking a tool up is one dictionary access however many there are. A table tells its owner when it changes,
so that cached pages are dropped and ``list_changed`` goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar, cast

from msgspec import Struct

from ...core.rights import Rights, needed
from ...errors import ProtocolError, RegistrationError
from ...model import CacheScope, Prompt, Resource, ResourceTemplate, Tool
from ..running import Runnable
from ..signatures.functions import Function, PromptFunction, ResourceFunction
from .options import TaskSupport

Changed = Literal["tools", "resources", "prompts"]
"""Whose ``list_changed`` a table belongs to."""


class Registered(Struct, kw_only=True, eq=False):
    """What every entry has."""

    name: str
    """The name or, for resources, the URI or template: the key of its table."""
    context_parameter: str | None
    """The keyword under which the function wants its `Context`."""
    call: Runnable
    """Runs the function with the guards its registration asked for."""
    tags: frozenset[str] = frozenset()
    rights: Rights = ()
    """Who may use it, and therefore sees it; everybody without any."""


class RegisteredTool(Registered, kw_only=True, eq=False):
    """A tool as it was registered."""

    function: Function
    definition: Tool
    task: TaskSupport = "forbidden"
    asks_first: bool = False
    resume: bool = False
    headers: Mapping[tuple[str, ...], Any] | None = None
    """Which arguments are mirrored in ``Mcp-Param-*`` headers; None for none."""


class RegisteredResource(Registered, kw_only=True, eq=False):
    """A resource, or a family of them."""

    function: ResourceFunction
    definition: Resource | ResourceTemplate
    mime_type: str | None = None
    ttl_ms: int | None = None
    cache_scope: CacheScope | None = None


class RegisteredPrompt(Registered, kw_only=True, eq=False):
    """A prompt as it was registered."""

    function: PromptFunction
    definition: Prompt


E = TypeVar("E", bound=Registered)


class Table(Generic[E]):
    """The entries of one list."""

    __slots__ = ("_changed", "_kind", "_what", "entries")

    def __init__(self, kind: Changed, what: str, changed: Callable[[Changed], None]) -> None:
        self.entries: dict[str, E] = {}
        self._kind: Changed = kind
        self._what = what
        self._changed = changed

    def add(self, key: str, entry: E) -> None:
        """Take ``entry`` in."""
        if key in self.entries:
            kind = "resource_already_exists" if self._kind == "resources" else None
            text = f"the {self._what} {key!r} is already registered; remove it first"
            raise RegistrationError(text, kind=kind)
        self.entries[key] = entry
        self._changed(self._kind)

    def remove(self, key: str) -> None:
        """Forget ``key``. Runs that are going on finish."""
        if self.entries.pop(key, None) is None:
            raise RegistrationError(f"there is no {self._what} {key!r} to remove")
        self._changed(self._kind)

    @property
    def view(self) -> Mapping[str, E]:
        """The entries, read-only and live."""
        return MappingProxyType(self.entries)

    def shown(self) -> Iterator[tuple[Any, Rights]]:
        """What the list shows of each, and to whom."""
        entries = cast("Iterable[Any]", self.entries.values())
        return ((entry.definition, entry.rights) for entry in entries)

    def __iter__(self) -> Iterator[E]:
        return iter(self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)


class Register:
    """The four lists of a server, and the completions that belong to them."""

    def __init__(self, changed: Callable[[Changed], None]) -> None:
        self.tools: Table[RegisteredTool] = Table("tools", "tool", changed)
        self.resources: Table[RegisteredResource] = Table("resources", "resource", changed)
        self.templates: Table[RegisteredResource] = Table("resources", "resource template", changed)
        self.prompts: Table[RegisteredPrompt] = Table("prompts", "prompt", changed)

    def table(self, name: str) -> Table[Any]:
        """The list called ``name``: tools, resources, templates or prompts."""
        return vars(self)[name]

    def __iter__(self) -> Iterator[Registered]:
        """Everything that is registered."""
        for table in (self.tools, self.resources, self.templates, self.prompts):
            yield from table

    def scopes(self) -> frozenset[str]:
        """The scopes that anything here asks for."""
        return frozenset[str]().union(*(needed(entry.rights) for entry in self if entry.rights))

    def rights_of(self, uri: str) -> Rights:
        """Who may read ``uri``; everybody, if it is nobody's."""
        found = self.find_resource(uri)
        return () if found is None else found[0].rights

    def find_resource(self, uri: str) -> tuple[RegisteredResource, dict[str, Any]] | None:
        """Who reads ``uri``, and the arguments its template finds in it; fixed URIs come before templates."""
        entry = self.resources.entries.get(uri)
        if entry is not None:
            return entry, {}
        for candidate in self.templates.entries.values():
            template = candidate.function.template
            values = None if template is None else template.match(uri)
            if values is None:
                continue
            try:
                return candidate, candidate.function.decode(values)
            except ProtocolError:
                continue  # a value of the wrong type: another template may take it
        return None
