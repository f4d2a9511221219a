"""The tables of components: one per list, by name, in the order of registration.

Finding a tool is one dictionary lookup. A table reports its changes, so that cached pages are discarded and
``list_changed`` is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, TypeVar, cast

from msgspec import Struct

from ...core.principal import Principal
from ...core.rights import Right, Rights, implies, visible
from ...errors import RegistrationError
from ...model import CacheScope, Prompt, Resource, ResourceTemplate, Tool
from ..execution import Runnable
from ..signatures.functions import Function, PromptFunction, ResourceFunction
from .component_options import TaskSupport
from .tool_versions import VERSIONS, joined, order, split

Changed = Literal["tools", "resources", "prompts"]
"""The list that a table's ``list_changed`` refers to."""


class Registered(Struct, kw_only=True, eq=False):
    """The common part of every entry."""

    name: str
    """The key in its table: the name or, for resources, the URI or template."""
    context_parameter: str | None
    """The keyword argument for the `Context`."""
    call: Runnable
    """Runs the function with the guards of its registration."""
    tags: frozenset[str] = frozenset()
    rights: Rights = ()
    """Which callers may use and see it; all, if there are no rights."""
    older: bool = False
    """A newer version exists: this one is not listed, and called as ``name@version``."""

    def has_argument(self, name: str) -> bool:
        """Whether the component has such an argument to complete."""
        raise NotImplementedError


class RegisteredTool(Registered, kw_only=True, eq=False):
    """A registered tool."""

    function: Function
    definition: Tool
    version: str | None = None
    task: TaskSupport = "forbidden"
    asks_first: bool = False
    resume: bool = False
    headers: Mapping[tuple[str, ...], Any] | None = None
    """The arguments that are mirrored in ``Mcp-Param-*`` headers; None for none."""

    def has_argument(self, name: str) -> bool:
        members = self.definition.input_schema.get("properties")
        return members is None or name in members  # a raw schema may have no "properties"


class RegisteredResource(Registered, kw_only=True, eq=False):
    """A registered resource or resource template."""

    function: ResourceFunction
    definition: Resource | ResourceTemplate
    mime_type: str | None = None
    ttl_ms: int | None = None
    cache_scope: CacheScope | None = None
    has: Callable[[str], bool] | None = None
    """For a template that matches more URIs than exist: whether a URI exists. Other URIs are left to mounted servers.
    """

    def has_argument(self, name: str) -> bool:
        template = self.function.template
        return template is not None and name in template.variables


class RegisteredPrompt(Registered, kw_only=True, eq=False):
    """A registered prompt."""

    function: PromptFunction
    definition: Prompt

    def has_argument(self, name: str) -> bool:
        return any(one.name == name for one in self.definition.arguments or ())


E = TypeVar("E", bound=Registered)


class Table(Mapping[str, E]):
    """The components of one list by name; read-only except for `add` and `remove`."""

    __slots__ = ("_changed", "_kind", "_what", "entries")

    def __init__(self, kind: Changed, what: str, changed: Callable[[Changed], None]) -> None:
        self.entries: dict[str, E] = {}
        self._kind: Changed = kind
        self._what = what
        self._changed = changed

    def add(self, key: str, entry: E) -> None:
        """Add ``entry`` to the table."""
        if key in self.entries:
            kind = "resource_already_exists" if self._kind == "resources" else None
            text = f"the {self._what} {key!r} is already registered; remove it first"
            raise RegistrationError(text, kind=kind)
        self.entries[key] = entry
        self._changed(self._kind)

    def remove(self, key: str) -> None:
        """Remove ``key``. Running calls finish."""
        if self.entries.pop(key, None) is None:
            raise RegistrationError(f"there is no {self._what} {key!r} to remove")
        self._changed(self._kind)

    def shown(self, admits: Callable[[E], bool] | None = None) -> Iterator[tuple[Any, Rights]]:
        """The definitions that the list shows, with their access rights."""
        entries = cast("Iterable[Any]", self.entries.values())
        return (
            (entry.definition, entry.rights)
            for entry in entries
            if not entry.older and (admits is None or admits(entry))
        )

    def __getitem__(self, key: str) -> E:
        return self.entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


class ToolTable(Table[RegisteredTool]):
    """The tools. If a name has several versions, the plain name refers to the newest."""

    __slots__ = ("_versions",)

    def __init__(self, changed: Callable[[Changed], None]) -> None:
        super().__init__("tools", "tool", changed)
        self._versions: dict[str, list[RegisteredTool]] = {}
        """The versions of names that have more than one, newest first."""

    def add(self, key: str, entry: RegisteredTool) -> None:
        """Add ``entry`` as a further version of an existing name, or as the first.

        Raises:
            RegistrationError: this version exists already, or one of the two tools has no version.
        """
        there = self.versions(key)
        if not there or (there[0].version is None and entry.version is None):
            super().add(key, entry)
            return
        if there[0].version is None or entry.version is None:
            raise RegistrationError(
                f"the tool {key!r} is registered with and without a version: set version= on both"
            )
        if any(order(one.version) == order(entry.version) for one in there):
            text = f"version {entry.version} of the tool {key!r} is already registered; remove it first"
            raise RegistrationError(text)
        self._arrange(key, [*there, entry])

    def remove(self, key: str) -> None:
        """Remove a tool with all its versions, or only ``name@version``."""
        name, version = split(key)
        there = self.versions(name)
        left = [one for one in there if order(one.version) != order(version)]
        if key in self.entries and key == name:
            self._arrange(name, [])
        elif version is not None and len(left) < len(there):
            self._arrange(name, left)
        else:
            super().remove(key)

    def versions(self, name: str) -> list[RegisteredTool]:
        """All versions of a tool, newest first."""
        found = self.entries.get(name)
        return self._versions.get(name) or ([] if found is None else [found])

    def newest(self, name: str, principal: Principal | None) -> str:
        """The key of the newest version that ``principal`` may use; otherwise, of the newest version."""
        there = self._versions.get(name, ())
        return next((one.name for one in there if visible(one.rights, principal)), name)

    def shown(self, admits: Callable[[RegisteredTool], bool] | None = None) -> Iterator[tuple[Any, Rights]]:
        """The newest versions, and older ones for callers that may not use a newer one."""
        yield from super().shown(admits)
        for versions in self._versions.values():
            admitted = [one for one in versions if admits is None or admits(one)]
            for place, one in enumerate(admitted):
                newer = [each.rights for each in admitted[:place]]
                if newer and all(newer):
                    yield one.definition, (*one.rights, Right(allows=partial(_none_visible, newer)))
                elif one.older and not newer:
                    yield one.definition, one.rights

    def find(self, name: str, version: str | None) -> str:
        """The key of a version of a tool. The version may also be part of the name.

        A tool without versions matches every ``version``. For an unknown tool, return ``name`` unchanged.
        """
        if version is None:
            if name in self.entries:
                return name
            base, version = split(name)
            there = [one for one in self.versions(base) if one.version is not None]
        else:
            base, there = name, self.versions(name)
            if there and there[0].version is None:
                return name
        wanted = order(version)
        return next((one.name for one in there if order(one.version) == wanted), joined(base, version))

    def _arrange(self, name: str, versions: list[RegisteredTool]) -> None:
        for one in self.versions(name):
            if one.name != name:
                self.entries.pop(one.name, None)
        versions = sorted(versions, key=lambda one: order(one.version), reverse=True)
        for one in versions:
            told = [each.version for each in versions if implies(one.rights, each.rights)]
            one.older = one is not versions[0]
            one.name = joined(name, one.version) if one.older else name
            meta = {key: value for key, value in (one.definition.meta or {}).items() if key != VERSIONS}
            one.definition.meta = meta if len(told) == 1 else {**meta, VERSIONS: told}
            self.entries[one.name] = one
        if len(versions) > 1:
            self._versions[name] = versions
        else:
            self._versions.pop(name, None)
        if not versions:
            self.entries.pop(name, None)
        self._changed(self._kind)


def _none_visible(newer: list[Rights], principal: Principal | None) -> bool:
    return not any(visible(rights, principal) for rights in newer)
