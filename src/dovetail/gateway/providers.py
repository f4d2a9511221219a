"""What can be mounted: a part shows components and answers for them. A `Server` in this process is one kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Raw, Struct
from msgspec.structs import replace

from ..core.channel import Call, Channel, Session
from ..core.rights import Rights, visible
from ..core.subscriptions import Change
from ..drivers.middleware_chain import Component
from ..errors import ProtocolError
from ..model import ServerCapabilities
from ..server.composition import ListName, TaskTool
from ..server.registry.tool_versions import joined, split
from ..wire.headers import HeaderMap
from ..wire.methods import Method
from ..wire.seal import Seal
from .naming import LISTINGS_KEPT, Naming
from .resource_visibility import sees
from .selectors import Traits, key_of_definition

if TYPE_CHECKING:
    from ..server.server import Server

CALL: Final = "call_tool"
"""The tool of a search that calls another one."""
LISTS: tuple[ListName, ...] = ("tools", "resources", "templates", "prompts")


class LoopError(ProtocolError):
    """A request came back to a proxy that it went through before."""


class Shown(Struct, frozen=True):
    """The components of one kind that a caller may see. The same ``version`` is the same list."""

    version: Any
    entries: Sequence[Any] = ()
    older: Sequence[Any] = ()
    """Older versions of tools, which are not listed; their names end with their versions."""
    origins: Mapping[str, str] = {}
    """Whose the entries are, by their keys; the server's own for those that are not named."""


class Part(Protocol):
    """Something mounted. Names and URIs are its own; whoever mounts it renames."""

    @property
    def label(self) -> str:
        """How messages name it."""
        ...

    @property
    def name(self) -> str:
        """What the server calls itself, or is called in a file: the origin of its components."""
        ...

    @property
    def capabilities(self) -> ServerCapabilities:
        """What it offers, as far as known."""
        ...

    def tool_names(self) -> Iterable[str]:
        """The names of its tools, as far as they are known without a request."""
        ...

    @property
    def param_headers(self) -> Mapping[str, HeaderMap]:
        """Which arguments of its tools are mirrored in headers."""
        ...

    @property
    def added(self) -> Mapping[str, Method]:
        """Methods and notifications that are none of the protocol's, by their names."""
        ...

    async def start(self, parent: Server) -> None: ...

    async def stop(self) -> None: ...

    async def meet(self, call: Call) -> None:
        """A client says hello, and is about to be told what there is: find out, if that depends on who it is."""
        ...

    async def shown(self, kind: ListName, call: Call) -> Shown:
        """What ``call`` may see.

        Raises:
            DovetailError: it cannot be told now.
        """
        ...

    def known(self, kind: ListName, call: Call) -> Shown | None:
        """What `shown` would say, where it is known at once; None otherwise."""
        ...

    def steady(self, kind: ListName) -> bool:
        """Whether callers without a principal are shown the same until this part tells of a change."""
        ...

    async def has(self, kind: ListName, name: str, call: Call) -> bool:
        """Whether there is such a component, for parts without a prefix of their own."""
        ...

    async def traits(self, name: str, call: Call) -> Sequence[Traits]:
        """All versions of a tool that are known, the newest first, by which others choose; none if it is not there."""
        ...

    def component(self, kind: ListName, name: str) -> Component | None:
        """What is known of a component without asking anybody; None where that is nothing."""
        ...

    def unwrapped(self, call: Call) -> Call | None:
        """The call that ``call_tool`` of a search stands for; None for every other call."""
        ...

    def task_tool(self, name: str) -> TaskTool | None:
        """Whether a call of the tool may become a task: of the server it is mounted in, not of its own."""
        ...

    def respond(self, call: Call, channel: Channel) -> Awaitable[Struct | Raw]: ...

    async def set_level(self, call: Call, channel: Channel) -> None:
        """``logging/setLevel`` of a client in front."""
        ...

    async def watch(self, uri: str, call: Call) -> None:
        """Somebody subscribed to ``uri``.

        Raises:
            ProtocolError: it is not there for them.
        """
        ...

    def unwatch(self, uri: str) -> None:
        """Nobody is subscribed to ``uri`` any more."""
        ...

    async def sees(self, uri: str, call: Call) -> bool:
        """Whether somebody who has subscribed to ``uri`` still sees it."""
        ...

    def rights_of(self, uri: str) -> Rights: ...

    def find_routes(self, path: str) -> list[Any]:
        """Its own HTTP routes that answer ``path``, as far as they can be called from here."""
        ...

    def session_ended(self, session: Session) -> None:
        """A legacy session in front is over."""
        ...

    def follow(self, tell: Callable[[Change], None]) -> None:
        """Have ``tell`` told of everything that changes; with news of nothing, that something else is offered."""
        ...


class Mount(Struct, eq=False):
    """One part and the names it has here."""

    part: Part
    naming: Naming
    renamed: dict[tuple[ListName, Any], list[Any]] = {}
    """The definitions under the names they have here, of the versions last shown."""

    def definitions(self, kind: ListName, shown: Shown) -> list[Any]:
        key = (kind, shown.version)
        found = self.renamed.get(key)
        if found is None:
            if len(self.renamed) >= LISTINGS_KEPT:
                self.renamed.clear()
            found = self.renamed[key] = [self.naming.definition(kind, one) for one in shown.entries]
        return found


class ServerPart:
    """A `Server` in this process, with its middleware, lifespan and rights."""

    def __init__(self, server: Server) -> None:
        self.server = server

    @property
    def label(self) -> str:
        return f"server {self.server.name!r}"

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def capabilities(self) -> ServerCapabilities:
        return self.server.capabilities

    def tool_names(self) -> Iterable[str]:
        from .collisions import shown_by  # which imports this module

        yield from (name for name, _ in shown_by(self, "tools"))
        composition = self.server.composition
        for mount in () if composition is None else composition.mounts:
            if not isinstance(mount.part, ServerPart):  # of which `shown_by` knows nothing
                yield from map(mount.naming.tool, mount.part.tool_names())

    @property
    def param_headers(self) -> Mapping[str, HeaderMap]:
        return self.server.param_headers

    @property
    def added(self) -> Mapping[str, Method]:
        return self.server.admission.methods.custom

    async def start(self, parent: Server) -> None:
        # What the child seals comes back through the parent, perhaps on another worker of it.
        self.server.seal = Seal(
            parent.seal.keys, self.server.limits.max_request_state_bytes, owner=self.server.name
        )
        self.server.inherited_store = parent.inherited_store if parent.store is None else parent.store
        transforms = self.server.transforms
        if self.server.store is None and transforms is not None and transforms.visibility is not None:
            transforms.visibility.store = parent.state_store  # what all workers of the parent know
        await self.server.start()

    async def stop(self) -> None:
        await self.server.stop()

    async def meet(self, call: Call) -> None:
        if self.server.composition is not None:
            await self.server.composition.meet(call)

    async def shown(self, kind: ListName, call: Call) -> Shown:
        server = self.server
        if server.transforms is not None and server.transforms.lists(kind):
            shown = await server.transforms.shown(kind, call)
        elif server.composition is not None:
            shown = await server.composition.shown(kind, call)
        else:
            shown = own_entries(server, kind, call)
        if not server.pipeline.filters(kind):
            return shown
        left, digest = await server.pipeline.filtered(kind, call, shown.entries)
        names = {key_of_definition(kind, one) for one in left}
        older = [one for one in shown.older if split(one.name)[0] in names]
        return Shown((shown.version, digest), left, older, shown.origins)

    def known(self, kind: ListName, call: Call) -> Shown | None:
        server = self.server
        if (server.transforms is not None and server.transforms.lists(kind)) or server.pipeline.filters(kind):
            return None
        return (
            own_entries(server, kind, call)
            if server.composition is None
            else server.composition.known(kind, call)
        )

    def steady(self, kind: ListName) -> bool:
        server = self.server
        if (server.transforms is not None and server.transforms.varies) or server.pipeline.filters(kind):
            return False
        if server.composition is not None:
            return server.composition.steady(kind)
        return not any(entry.rights for entry in server.register.table(kind))

    async def traits(self, name: str, call: Call) -> Sequence[Traits]:
        shown = await self.shown("tools", call)
        return traits_in(shown, name)

    async def has(self, kind: ListName, name: str, call: Call) -> bool:
        register, transforms = self.server.register, self.server.transforms
        if transforms is not None:
            if kind == "tools" and transforms.search is not None and name in transforms.search.names:
                return True
            inner = await transforms.inner(kind, name, call)
            if inner is None:
                return False
            name = inner
        if kind in ("resources", "templates"):
            found = register.find_resource(name) is not None or name in register.templates.entries
        else:
            found = name in register.table(kind).entries
        return found or (
            self.server.composition is not None and await self.server.composition.has(kind, name, call)
        )

    def component(self, kind: ListName, name: str) -> Component | None:
        server, transforms = self.server, self.server.transforms
        inner = name if transforms is None else transforms.before(name, kind)
        if kind == "tools" and "@" in name and inner not in server.register.tools.entries:
            base, version = split(name)  # a version may be written in several ways
            inner = base if transforms is None else transforms.before(base)
            inner = None if inner is None else server.register.tools.find(joined(inner, version), None)
        if inner is None:
            return None
        if kind in ("resources", "templates"):
            found = server.register.find_resource(inner)
            entry = server.register.templates.entries.get(inner) or (None if found is None else found[0])
        else:
            entry = server.register.table(kind).entries.get(inner)
        if entry is None:
            known = None if server.composition is None else server.composition.component(kind, inner)
            if known is None:
                return None
            stripped = kind == "tools" and known.name != inner  # of its version
            return replace(known, name=split(name)[0] if stripped else name)
        component = server.pipeline.of_entry(kind, entry)
        stripped = kind == "tools" and (entry.older or name not in (inner, entry.definition.name))
        return replace(component, name=split(name)[0] if stripped else name)

    def unwrapped(self, call: Call) -> Call | None:
        transforms, composition = self.server.transforms, self.server.composition
        if transforms is not None and transforms.search is not None and call.params.name == CALL:
            meant = transforms.search.unwrapped(call)
            return meant if isinstance(meant, Call) else None
        return None if composition is None else composition.unwrapped(call)

    def task_tool(self, name: str) -> TaskTool | None:
        transforms = self.server.transforms
        inner = name if transforms is None else transforms.before(name)
        if inner is None:
            return None
        tool = self.server.register.tools.entries.get(inner)
        if tool is not None:
            return TaskTool(name, tool.task, tool.rights, tool.asks_first)
        return None if self.server.composition is None else self.server.composition.task_tool(inner)

    def respond(self, call: Call, channel: Channel) -> Awaitable[Struct | Raw]:
        return self.server.respond(call, channel)

    async def set_level(self, call: Call, channel: Channel) -> None:
        if self.server.composition is not None:
            await self.server.composition.set_level(call, channel)

    async def watch(self, uri: str, call: Call) -> None:
        await self.server.watch_address(uri, call)

    def unwatch(self, uri: str) -> None:
        if self.server.composition is not None:
            self.server.composition.unwatch(uri)

    async def sees(self, uri: str, call: Call) -> bool:
        return await sees(self.server, uri, call)

    def rights_of(self, uri: str) -> Rights:
        transforms = self.server.transforms
        return self.server.pipeline.rights_to(uri if transforms is None else transforms.known_as(uri))

    def find_routes(self, path: str) -> list[Any]:
        return self.server.find_routes(path)

    def session_ended(self, session: Session) -> None:
        if self.server.hub.on_session_end is not None:
            self.server.hub.on_session_end(session)

    def follow(self, tell: Callable[[Change], None]) -> None:
        self.server.hub.on_change.append(tell)
        self.server.admission.methods.on_change.append(partial(tell, Change()))


def own_entries(server: Server, kind: ListName, call: Call) -> Shown:
    """What ``call`` may see of the components registered with ``server`` itself."""
    admits, of = server.pipeline.admits, server.pipeline.of_entry
    entries = [one for one in server.register.table(kind) if admits is None or admits(of(kind, one))]
    seen = tuple(not entry.rights or visible(entry.rights, call.principal) for entry in entries)
    shown = [entry for entry, sees in zip(entries, seen, strict=True) if sees]
    # Of a tool with versions the name is that of the newest one that the caller may use.
    find = server.register.tools.newest
    behind = {
        entry.name
        for entry in shown
        if entry.older and find(entry.definition.name, call.principal) != entry.name
    }
    newest = [entry.definition for entry in shown if entry.name not in behind]
    older = [replace(entry.definition, name=entry.name) for entry in shown if entry.name in behind]
    return Shown((server.generation, None if all(seen) else seen), newest, older)


def traits_in(shown: Shown, name: str) -> Sequence[Traits]:
    """All versions of one tool in a list, the newest first."""
    found = [Traits.of(tool) for tool in shown.entries if tool.name == name]
    return found + [Traits.of(tool) for tool in shown.older if split(tool.name)[0] == name]
