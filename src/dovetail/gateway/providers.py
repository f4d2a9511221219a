"""`ComponentProvider`: the interface of a mounted server; `ServerProvider` is one in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from msgspec import Raw, Struct
from msgspec.structs import replace

from ..core.channel import Call, Channel, Session
from ..core.rights import Rights, visible
from ..core.subscription_hub import PublishedChange
from ..drivers.middleware_chain import Component
from ..errors import NAME_ECHO, ProtocolError
from ..model import ServerCapabilities
from ..server.composition import ListName, TaskTool
from ..server.registry.tool_versions import joined, split
from ..server.server import Server
from ..wire.headers import HeaderMap
from ..wire.methods import Method
from .naming import LISTINGS_KEPT, Naming
from .resource_visibility import sees
from .selectors import Traits, key_of_definition

CALL: Final = "call_tool"
"""The search tool that calls another tool."""
LISTS: tuple[ListName, ...] = ("tools", "resources", "templates", "prompts")


class LoopError(ProtocolError):
    """A request returned to a proxy that it passed before."""


class ComponentList(Struct, frozen=True):
    """The components of one kind visible to a caller. An equal ``version`` means an equal list."""

    version: Any
    entries: Sequence[Any] = ()
    older: Sequence[Any] = ()
    """Older versions of tools, not listed. Their keys end with the version."""
    origins: Mapping[str, str] = {}
    """The origin of entries by key; entries without one belong to the server itself."""


class ComponentProvider(Protocol):
    """A mounted source of components. It uses its own names; the parent renames them."""

    @property
    def label(self) -> str:
        """The name in messages."""
        ...

    @property
    def name(self) -> str:
        """The server's name: the origin of its components."""
        ...

    @property
    def capabilities(self) -> ServerCapabilities:
        """The known capabilities."""
        ...

    def tool_names(self) -> Iterable[str]:
        """The names of its tools, as far as they are known without a request."""
        ...

    @property
    def param_headers(self) -> Mapping[str, HeaderMap]:
        """The arguments of its tools that are repeated in headers."""
        ...

    @property
    def added(self) -> Mapping[str, Method]:
        """Extension methods and notifications by name."""
        ...

    async def start(self, parent: Server) -> None: ...

    async def stop(self) -> None: ...

    async def prepare_client(self, call: Call) -> None:
        """Prepare for a connecting client, if the components depend on the caller."""
        ...

    async def shown(self, kind: ListName, call: Call) -> ComponentList:
        """Return the components visible to ``call``.

        Raises:
            DovetailError: the list is unavailable.
        """
        ...

    def known(self, kind: ListName, call: Call) -> ComponentList | None:
        """Return the result of `shown` if it is known without a request, else None."""
        ...

    def is_static(self, kind: ListName) -> bool:
        """Return whether callers without a principal see the same list until a change is reported."""
        ...

    async def has(self, kind: ListName, name: str, call: Call) -> bool:
        """Return whether it has such a component. Used for servers without a prefix."""
        ...

    async def traits(self, name: str, call: Call) -> Sequence[Traits]:
        """Return the known versions of a tool, newest first; empty if it does not exist."""
        ...

    def component(self, kind: ListName, name: str) -> Component | None:
        """Return what is known of a component without a request, or None."""
        ...

    def unwrapped(self, call: Call) -> Call | None:
        """Return the tool call inside a ``call_tool`` of a search; None for other calls."""
        ...

    def task_tool(self, name: str) -> TaskTool | None:
        """Return whether a call of the tool may become a task of the parent server."""
        ...

    def respond(self, call: Call, channel: Channel) -> Awaitable[Struct | Raw]: ...

    async def set_level(self, call: Call, channel: Channel) -> None:
        """Handle ``logging/setLevel`` of a downstream client."""
        ...

    async def watch(self, uri: str, call: Call) -> None:
        """Subscribe to ``uri``.

        Raises:
            ProtocolError: it is not visible to the caller.
        """
        ...

    def unwatch(self, uri: str) -> None:
        """Unsubscribe from ``uri``: it has no subscribers left."""
        ...

    async def sees(self, uri: str, call: Call) -> bool:
        """Return whether a subscriber of ``uri`` can still see it."""
        ...

    def rights_of(self, uri: str) -> Rights: ...

    def find_routes(self, path: str) -> list[Any]:
        """Return its custom HTTP routes that match ``path``."""
        ...

    def session_ended(self, session: Session) -> None:
        """Clean up after a legacy session of a downstream client."""
        ...

    def follow(self, tell: Callable[[PublishedChange], None]) -> None:
        """Call ``tell`` for every change. An empty change means that other capabilities are offered."""
        ...


class Mount(Struct, eq=False):
    """A mounted provider and its names in the parent server."""

    part: ComponentProvider
    naming: Naming
    renamed: dict[tuple[ListName, Any], list[Any]] = {}
    """The definitions under their names here, for the versions last listed."""

    def definitions(self, kind: ListName, shown: ComponentList) -> list[Any]:
        key = (kind, shown.version)
        found = self.renamed.get(key)
        if found is None:
            if len(self.renamed) >= LISTINGS_KEPT:
                self.renamed.clear()
            found = self.renamed[key] = [self.naming.definition(kind, one) for one in shown.entries]
        return found


class ServerProvider:
    """A `Server` in this process, with its middleware, lifespan and permissions."""

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
        return self.server.dispatcher.capabilities

    def tool_names(self) -> Iterable[str]:
        from .collisions import shown_by  # which imports this module

        yield from (name for name, _ in shown_by(self, "tools"))
        composition = self.server.registry.composition
        for mount in () if composition is None else composition.mounts:
            if not isinstance(mount.part, ServerProvider):  # of which `shown_by` knows nothing
                yield from map(mount.naming.tool, mount.part.tool_names())

    @property
    def param_headers(self) -> Mapping[str, HeaderMap]:
        return self.server.registry.param_headers

    @property
    def added(self) -> Mapping[str, Method]:
        return self.server.dispatcher.admission.methods.custom

    async def start(self, parent: Server) -> None:
        # Sealed values of the child return through the parent, perhaps in another worker process.
        self.server.dispatcher.use_keys(parent.dispatcher.seal.keys)
        self.server.lifecycle.inherit_store(parent.lifecycle)
        transforms = self.server.registry.transforms
        if (
            self.server.lifecycle.store is None
            and transforms is not None
            and transforms.visibility is not None
        ):
            transforms.visibility.store = parent.lifecycle.state_store  # shared by all workers of the parent
        await self.server.lifecycle.start()

    async def stop(self) -> None:
        await self.server.lifecycle.stop()

    async def prepare_client(self, call: Call) -> None:
        if self.server.registry.composition is not None:
            await self.server.registry.composition.prepare_client(call)

    async def shown(self, kind: ListName, call: Call) -> ComponentList:
        server = self.server
        if server.registry.transforms is not None and server.registry.transforms.lists(kind):
            shown = await server.registry.transforms.shown(kind, call)
        elif server.registry.composition is not None:
            shown = await server.registry.composition.shown(kind, call)
        else:
            shown = own_entries(server, kind, call)
        if not server.dispatcher.pipeline.filters(kind):
            return shown
        left, digest = await server.dispatcher.pipeline.filtered(kind, call, shown.entries)
        names = {key_of_definition(kind, one) for one in left}
        older = [one for one in shown.older if split(one.name)[0] in names]
        return ComponentList((shown.version, digest), left, older, shown.origins)

    def known(self, kind: ListName, call: Call) -> ComponentList | None:
        server = self.server
        if (
            server.registry.transforms is not None and server.registry.transforms.lists(kind)
        ) or server.dispatcher.pipeline.filters(kind):
            return None
        return (
            own_entries(server, kind, call)
            if server.registry.composition is None
            else server.registry.composition.known(kind, call)
        )

    def is_static(self, kind: ListName) -> bool:
        server = self.server
        if (
            server.registry.transforms is not None and server.registry.transforms.varies
        ) or server.dispatcher.pipeline.filters(kind):
            return False
        if server.registry.composition is not None:
            return server.registry.composition.is_static(kind)
        return not any(entry.rights for entry in server.registry.table(kind).values())

    async def traits(self, name: str, call: Call) -> Sequence[Traits]:
        shown = await self.shown("tools", call)
        return traits_in(shown, name)

    async def has(self, kind: ListName, name: str, call: Call) -> bool:
        register, transforms = self.server.registry, self.server.registry.transforms
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
            self.server.registry.composition is not None
            and await self.server.registry.composition.has(kind, name, call)
        )

    def component(self, kind: ListName, name: str) -> Component | None:
        server, transforms = self.server, self.server.registry.transforms
        inner = name if transforms is None else transforms.before(name, kind)
        if kind == "tools" and "@" in name and inner not in server.registry.tools.entries:
            base, version = split(name)  # a version has several spellings
            inner = base if transforms is None else transforms.before(base)
            inner = None if inner is None else server.registry.tools.find(joined(inner, version), None)
        if inner is None:
            return None
        if kind in ("resources", "templates"):
            found = server.registry.find_resource(inner)
            entry = server.registry.templates.entries.get(inner) or (None if found is None else found[0])
        else:
            entry = server.registry.table(kind).entries.get(inner)
        if entry is None:
            known = (
                None
                if server.registry.composition is None
                else server.registry.composition.component(kind, inner)
            )
            if known is None:
                return None
            stripped = kind == "tools" and known.name != inner  # the version was removed
            return replace(known, name=split(name)[0] if stripped else name)
        component = server.dispatcher.pipeline.of_entry(kind, entry)
        stripped = kind == "tools" and (entry.older or name not in (inner, entry.definition.name))
        return replace(component, name=split(name)[0] if stripped else name)

    def unwrapped(self, call: Call) -> Call | None:
        transforms, composition = self.server.registry.transforms, self.server.registry.composition
        if transforms is not None and transforms.search is not None and call.params.name == CALL:
            meant = transforms.search.unwrapped(call)
            return meant if isinstance(meant, Call) else None
        return None if composition is None else composition.unwrapped(call)

    def task_tool(self, name: str) -> TaskTool | None:
        transforms = self.server.registry.transforms
        inner = name if transforms is None else transforms.before(name)
        if inner is None:
            return None
        tool = self.server.registry.tools.entries.get(inner)
        if tool is not None:
            return TaskTool(name, tool.task, tool.rights, tool.asks_first)
        return (
            None
            if self.server.registry.composition is None
            else self.server.registry.composition.task_tool(inner)
        )

    def respond(self, call: Call, channel: Channel) -> Awaitable[Struct | Raw]:
        transforms = self.server.registry.transforms
        if (
            transforms is not None
            and transforms.method_tools is not None
            and transforms.method_tools.find(call)
        ):
            # The parent shows the resources and prompts themselves: its guards must see which one is used.
            raise ProtocolError("tool_not_found", data={"tool": call.params.name[:NAME_ECHO]})
        return self.server.dispatcher.respond(call, channel)

    async def set_level(self, call: Call, channel: Channel) -> None:
        if self.server.registry.composition is not None:
            await self.server.registry.composition.set_level(call, channel)

    async def watch(self, uri: str, call: Call) -> None:
        await self.server.dispatcher.watch_address(uri, call)

    def unwatch(self, uri: str) -> None:
        if self.server.registry.composition is not None:
            self.server.registry.composition.unwatch(uri)

    async def sees(self, uri: str, call: Call) -> bool:
        return await sees(self.server, uri, call)

    def rights_of(self, uri: str) -> Rights:
        transforms = self.server.registry.transforms
        return self.server.dispatcher.pipeline.rights_to(
            uri if transforms is None else transforms.known_as(uri)
        )

    def find_routes(self, path: str) -> list[Any]:
        return self.server.dispatcher.find_routes(path)

    def session_ended(self, session: Session) -> None:
        if self.server.subscriptions.hub.on_session_end is not None:
            self.server.subscriptions.hub.on_session_end(session)

    def follow(self, tell: Callable[[PublishedChange], None]) -> None:
        self.server.subscriptions.hub.on_change.append(tell)
        self.server.dispatcher.admission.methods.on_change.append(partial(tell, PublishedChange()))


def own_entries(server: Server, kind: ListName, call: Call) -> ComponentList:
    """Return the components registered in ``server`` itself that are visible to ``call``."""
    admits, of = server.dispatcher.pipeline.admits, server.dispatcher.pipeline.of_entry
    entries = [one for one in server.registry.table(kind).values() if admits is None or admits(of(kind, one))]
    seen = tuple(not entry.rights or visible(entry.rights, call.principal) for entry in entries)
    shown = [entry for entry, sees in zip(entries, seen, strict=True) if sees]
    # A tool with several versions is listed as the newest one that the caller may use.
    find = server.registry.tools.newest
    behind = {
        entry.name
        for entry in shown
        if entry.older and find(entry.definition.name, call.principal) != entry.name
    }
    newest = [entry.definition for entry in shown if entry.name not in behind]
    older = [replace(entry.definition, name=entry.name) for entry in shown if entry.name in behind]
    return ComponentList((server.registry.generation, None if all(seen) else seen), newest, older)


def traits_in(shown: ComponentList, name: str) -> Sequence[Traits]:
    """Return all versions of one tool in a list, newest first."""
    found = [Traits.of(tool) for tool in shown.entries if tool.name == name]
    return found + [Traits.of(tool) for tool in shown.older if split(tool.name)[0] == name]
