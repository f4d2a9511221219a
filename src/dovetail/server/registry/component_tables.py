"""What a server offers: one table per list, by name, in the order of registration.

Looking a tool up is one dictionary access however many there are. A table tells its owner when it changes,
so that cached pages are dropped and ``list_changed`` goes out.
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
    older: bool = False
    """There is a newer version of it: it is not listed, and called ``name@version``."""

    def has_argument(self, name: str) -> bool:
        """Whether there is such an argument to complete."""
        raise NotImplementedError


class RegisteredTool(Registered, kw_only=True, eq=False):
    """A tool as it was registered."""

    function: Function
    definition: Tool
    version: str | None = None
    task: TaskSupport = "forbidden"
    asks_first: bool = False
    resume: bool = False
    headers: Mapping[tuple[str, ...], Any] | None = None
    """Which arguments are mirrored in ``Mcp-Param-*`` headers; None for none."""

    def has_argument(self, name: str) -> bool:
        members = self.definition.input_schema.get("properties")
        return members is None or name in members  # a raw schema may say it in another way


class RegisteredResource(Registered, kw_only=True, eq=False):
    """A resource, or a family of them."""

    function: ResourceFunction
    definition: Resource | ResourceTemplate
    mime_type: str | None = None
    ttl_ms: int | None = None
    cache_scope: CacheScope | None = None
    has: Callable[[str], bool] | None = None
    """Of a template that matches more than there is: whether a URI is there. What is not may be somebody else's."""

    def has_argument(self, name: str) -> bool:
        template = self.function.template
        return template is not None and name in template.variables


class RegisteredPrompt(Registered, kw_only=True, eq=False):
    """A prompt as it was registered."""

    function: PromptFunction
    definition: Prompt

    def has_argument(self, name: str) -> bool:
        return any(one.name == name for one in self.definition.arguments or ())


E = TypeVar("E", bound=Registered)


class Table(Mapping[str, E]):
    """The components of one list by name, live; read-only except for `add` and `remove`."""

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

    def shown(self, admits: Callable[[E], bool] | None = None) -> Iterator[tuple[Any, Rights]]:
        """What the list shows of each that is admitted, and to whom."""
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
    """The tools; a name may have several versions, of which the newest has the name itself."""

    __slots__ = ("_versions",)

    def __init__(self, changed: Callable[[Changed], None]) -> None:
        super().__init__("tools", "tool", changed)
        self._versions: dict[str, list[RegisteredTool]] = {}
        """Of names that have more than one, the newest first."""

    def add(self, key: str, entry: RegisteredTool) -> None:
        """Take ``entry`` in, as a version of what has its name already or as the first.

        Raises:
            RegistrationError: this version is there already, or one of the two has none.
        """
        there = self.versions(key)
        if not there or (there[0].version is None and entry.version is None):
            super().add(key, entry)
            return
        if there[0].version is None or entry.version is None:
            raise RegistrationError(
                f"the tool {key!r} is registered with and without a version: give both one"
            )
        if any(order(one.version) == order(entry.version) for one in there):
            text = f"version {entry.version} of the tool {key!r} is already registered; remove it first"
            raise RegistrationError(text)
        self._arrange(key, [*there, entry])

    def remove(self, key: str) -> None:
        """Forget a tool with all its versions, or the version ``name@version`` alone."""
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
        """All versions of a tool, the newest first."""
        found = self.entries.get(name)
        return self._versions.get(name) or ([] if found is None else [found])

    def newest(self, name: str, principal: Principal | None) -> str:
        """The key of the newest version that ``principal`` may use; where there is none, of the newest."""
        there = self._versions.get(name, ())
        return next((one.name for one in there if visible(one.rights, principal)), name)

    def shown(self, admits: Callable[[RegisteredTool], bool] | None = None) -> Iterator[tuple[Any, Rights]]:
        """The newest versions; and older ones, for those who may use none that is newer."""
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
        """The key of a version of a tool, of which the version may also stand in the name.

        A tool without versions is found whatever ``version`` is asked for; what is not there keeps its name.
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
