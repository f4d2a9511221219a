"""`Mounts`: the servers mounted in a server, and the routing of calls to them.

`Mounts` is the `Composition` of a server. A name that the server does not know is routed by its prefix: the
mounted server gets the call with its original name and answers it. `list_merging` merges the lists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from ..core.channel import Call, Channel, Notice, Session
from ..core.rights import Rights
from ..core.subscription_hub import LIST_KINDS, PublishedChange
from ..drivers.middleware_chain import Component
from ..errors import ProtocolError, RegistrationError
from ..model import ResourceTemplateReference
from ..model.meta import APPS_EXTENSION, SKILLS_EXTENSION, TASKS_EXTENSION
from ..openapi.asgi_client import App, AsgiFetch
from ..server.composition import ListName, TaskTool
from ..server.dispatcher import UPLOAD_PATH
from ..server.server import Server
from ..settings import HttpOptions
from .collisions import known, shown_by
from .extension_methods import ExtensionMethods
from .list_merging import MergedLists
from .mounted_skills import offer_skills
from .naming import Naming, may_be_shortened
from .providers import LISTS, ComponentProvider, Mount, ServerProvider
from .resource_visibility import SubscriptionVisibility
from .selectors import Traits

ROUTES_KEPT: Final = 10_000
"""Cached tool routes."""
START_TIMEOUT: Final = 10.0
"""Seconds that a gateway waits for a server at startup; slower ones are added when they are ready."""


_KINDS: Final[Mapping[str, ListName]] = {
    "tools/call": "tools",
    "prompts/get": "prompts",
    "resources/read": "resources",
}
_ABSENT: Final = frozenset(
    {"tool_not_found", "prompt_not_found", "resource_not_found", "completion_not_found"}
)


def mount(server: Server, child: Server | ComponentProvider | App, prefix: str | None) -> None:
    """Implement `Server.mount`. An ASGI application is called over HTTP in memory.

    Raises:
        RegistrationError: ``child`` cannot be mounted; also as `Mounts.add`.
    """
    from .proxy import Proxy  # imports this module

    if callable(child):
        child = Proxy(f"http://localhost{HttpOptions().path}", http=AsgiFetch(child))
    elif not isinstance(child, Server) and not hasattr(child, "follow"):
        raise RegistrationError(f"mount needs a Server, a Proxy or an ASGI application, not {child!r}")
    if isinstance(child, Proxy):
        child.remote.patience = START_TIMEOUT
    mounts = server.registry.composition
    if not isinstance(mounts, Mounts):
        mounts = Mounts(server)
        server.dispatcher.compose_with(mounts)
    mounts.add(ServerProvider(child) if isinstance(child, Server) else child, prefix)


class Mounts(MergedLists):
    """The servers mounted in one server."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._prefixed: dict[str, Mount] = {}
        self._bare: list[Mount] = []
        self._routes: dict[tuple[ListName, str], tuple[Mount, str]] = {}
        """Routes of called tools, valid until something changes."""
        self._watched: dict[str, tuple[Mount, str]] = {}
        """By URI: the mounted server and its original URI."""
        self._own_methods = ExtensionMethods(server, self._collisions)
        self._started = False
        for codec in server.dispatcher.admission.codecs.values():
            codec.preserve_unknown()
        hub = server.subscriptions.hub
        hub.on_uri_unused, hub.on_session_end, hub.visibility_filter = (
            self.unwatch,
            self._session_ended,
            SubscriptionVisibility(server),
        )

    def add(self, part: ComponentProvider, prefix: str | None) -> None:
        """Mount ``part``.

        Raises:
            RegistrationError: the prefix or a name is in use, or a server would contain itself.
        """
        naming = Naming(prefix, self._server.registry.max_name_length)
        if naming.prefix in self._prefixed:
            taken = self._prefixed[naming.prefix].part.label
            raise RegistrationError(f"the prefix {prefix!r} of {part.label} is already used by {taken}")
        mount = Mount(part, naming)
        if isinstance(part, ServerProvider):
            self._check(part, naming)
        self.mounts.append(mount)
        self._routes.clear()
        if naming.prefix:
            self._prefixed[naming.prefix] = mount
        else:
            self._bare.append(mount)
        part.follow(partial(self._news, mount))
        self._adopt(mount)
        for kind in LIST_KINDS:
            self._server.registry.changed(kind)

    async def remove(self, server: Server) -> None:
        """Stop and remove a mounted server."""
        mount = next(
            each
            for each in self.mounts
            if isinstance(each.part, ServerProvider) and each.part.server is server
        )
        self.mounts.remove(mount)
        self._prefixed.pop(mount.naming.prefix, None)
        if mount in self._bare:
            self._bare.remove(mount)
        self._routes.clear()
        self._merged.clear()
        self._own_methods.adopt(self.mounts)
        for kind in LIST_KINDS:
            self._server.registry.changed(kind)
        await mount.part.stop()

    def _check(self, part: ServerProvider, naming: Naming) -> None:
        if self._server in _inside(part.server):
            raise RegistrationError(f"{part.label} cannot be mounted in itself")
        for kind in LISTS:
            taken = {name: origin for name, _, origin in known(self._server, kind)}
            for name, _ in shown_by(part, kind):
                outer = naming.renamed(kind, name)
                if outer in taken:
                    raise RegistrationError(
                        f"{outer!r} of {part.label} is already used by {taken[outer]}; mount it with another prefix"
                    )

    def _adopt(self, mount: Mount) -> None:
        """Offer the capabilities of a mounted server. A capability stays once it was offered."""
        server, offered = self._server, mount.part.capabilities
        for name, found in mount.part.param_headers.items():
            server.registry.param_headers[mount.naming.tool(name)] = found
        for name in ("tools", "prompts", "resources", "completions"):
            if (settings := offered.view(name)) is not None and name not in server.dispatcher.capabilities:
                server.dispatcher.add_capability(name, settings)
        if offered.has("tasks") or offered.has(f"extensions.{TASKS_EXTENSION}"):
            server.extensions.add_owner("task")
        if (apps := offered.extension(APPS_EXTENSION)) is not None:
            server.dispatcher.add_capability(f"extensions.{APPS_EXTENSION}", apps)
            server.dispatcher.admission.methods.extend("ping")
        if (skills := offered.extension(SKILLS_EXTENSION)) is not None:
            offer_skills(server, self, skills)
        self._own_methods.adopt(self.mounts)

    def _news(self, mount: Mount, news: PublishedChange) -> None:
        if mount not in self.mounts:
            return  # it was removed
        if news.list is not None and (news.session is not None or news.principal is not None):
            self._server.subscriptions.hub.publish(news)
        elif news.list is not None:
            self._routes.clear()
            self._adopt(mount)
            self._server.registry.changed(news.list, news)
        elif news.uri is not None:
            self._server.subscriptions.hub.publish(replace(news, uri=mount.naming.uri(news.uri)))
        elif news.task is not None:
            self._server.subscriptions.hub.publish_task(news.task)
        else:
            self._adopt(mount)

    # --- lifecycle
    # --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all mounted servers concurrently. Raise the first failure of one in this process."""
        if not self._started:
            self._started = True
            await asyncio.gather(*(mount.part.start(self._server) for mount in self.mounts))
            for mount in self.mounts:
                self._adopt(mount)

    async def stop(self) -> None:
        self._started = False
        for mount in reversed(self.mounts):
            await mount.part.stop()

    async def prepare_client(self, call: Call) -> None:
        """Update the capabilities of mounted servers that depend on the caller."""
        await asyncio.gather(*(mount.part.prepare_client(call) for mount in self.mounts))
        for mount in self.mounts:
            self._adopt(mount)

    # --- routing
    # ----------------------------------------------------------------------------------------------------------

    def _owners_of_name(self, name: str) -> Iterator[tuple[Mount, str]]:
        """Yield the servers that may own ``name``, longest prefix first. The cost depends only on the length
        of the name.
        """
        base, at, version = name.partition("@")
        if may_be_shortened(base, self._server.registry.max_name_length):
            for mount, inner in self._shortened(base):
                yield mount, f"{inner}{at}{version}"
        end = name.rfind("_")
        while end > 0:
            mount = self._prefixed.get(name[:end])
            if mount is not None:
                yield mount, name[end + 1 :]
            end = name.rfind("_", 0, end)
        for mount in self._bare:
            yield mount, name

    def _shortened(self, name: str) -> list[tuple[Mount, str]]:
        """Whose tool was given the shortened ``name``, and what it is called there."""
        mounts = self._prefixed.values()
        found = [(each, each.naming.shortened[name]) for each in mounts if name in each.naming.shortened]
        if not found:  # another process may have listed it
            owners = [each for each in mounts if name in map(each.naming.tool, each.part.tool_names())]
            found = [(each, each.naming.shortened[name]) for each in owners]
        return found

    def limit_names(self, limit: int) -> None:
        """Give the tools of prefixed mounts names of at most ``limit`` characters from now on."""
        for mount in self.mounts:
            mount.naming.limit = limit
            mount.naming.shortened.clear()
            mount.renamed.clear()
        self._routes.clear()
        self._merged.clear()
        self._server.registry.changed("tools")

    def owners_of_uri(self, uri: str) -> Iterator[tuple[Mount, str]]:
        _, separator, rest = uri.partition("://")
        prefix = rest.partition("/")[0] if separator else uri.partition("+")[0]
        mount = self._prefixed.get(prefix)
        inner = None if mount is None else mount.naming.inner_uri(uri)
        if mount is not None and inner is not None:
            yield mount, inner
        for mount in self._bare:
            yield mount, uri

    async def _owner(self, kind: ListName, name: str, call: Call) -> tuple[Mount, str] | None:
        owners = self.owners_of_uri if kind in ("resources", "templates") else self._owners_of_name
        found = list(owners(name))
        for mount, inner in found:
            if len(found) == 1 or await mount.part.has(kind, inner, call):
                return mount, inner
        return None

    async def has(self, kind: ListName, name: str, call: Call) -> bool:
        found = await self._owner(kind, name, call)
        return found is not None and await found[0].part.has(kind, found[1], call)

    async def traits(self, name: str, call: Call) -> Sequence[Traits]:
        found = await self._owner("tools", name, call)
        if found is None:
            return ()
        mount, inner = found
        return [replace(one, key=mount.naming.tool(one.key)) for one in await mount.part.traits(inner, call)]

    def component(self, kind: ListName, name: str) -> Component | None:
        """Return what is known of a component of a mounted server, without a request."""
        owners = (
            self.owners_of_uri(name) if kind in ("resources", "templates") else self._owners_of_name(name)
        )
        for mount, inner in owners:
            found = mount.part.component(kind, inner)
            if found is not None:
                renamed = partial(mount.naming.renamed, kind)
                return replace(
                    found,
                    name=renamed(found.name),
                    origin=found.origin or mount.part.name,
                    aliases=frozenset(map(renamed, found.aliases)),
                )
        return None

    def unwrapped(self, call: Call) -> Call | None:
        """Return the tool call inside a ``call_tool`` of a mounted server's search, under its name here."""
        for mount, inner in self._owners_of_name(call.params.name):
            meant = mount.part.unwrapped(call.with_params(replace(call.params, name=inner)))
            if meant is not None:
                return meant.with_params(replace(meant.params, name=mount.naming.tool(meant.params.name)))
        return None

    def task_tool(self, name: str) -> TaskTool | None:
        """Return whether a call of this tool may become a task of this server."""
        for mount, inner in self._owners_of_name(name):
            found = mount.part.task_tool(inner)
            if found is not None:
                return replace(found, name=name)
        return None

    def scopes(self) -> frozenset[str]:
        servers = [mount.part.server for mount in self.mounts if isinstance(mount.part, ServerProvider)]
        return frozenset[str]().union(*(server.registry.scopes() for server in servers))

    def find_routes(self, path: str) -> list[Any]:
        """Return custom HTTP routes of mounted servers. The prefix is the first path segment."""
        _, first, rest = path.split("/", 2) if path.count("/") > 1 else ("", "", "")
        owner = self._prefixed.get(first) if first else None
        found = [] if owner is None else owner.part.find_routes(f"/{rest}")
        if path.startswith(UPLOAD_PATH):  # the URL names no prefix: only the server that sealed it answers
            return [*found, *(route for mount in self.mounts for route in mount.part.find_routes(path))]
        return found + [route for mount in self._bare for route in mount.part.find_routes(path)]

    def rights_of(self, uri: str) -> Rights:
        """Return the permissions for a URI of a mounted server."""
        for mount, inner in self.owners_of_uri(uri):
            if rights := mount.part.rights_of(inner):
                return rights
        return ()

    # --- calls --------------------------------------------------------------------------------------------------------

    async def respond(self, call: Call, channel: Channel) -> Struct | Raw | None:
        """Forward the call to its owner. Return None without an owner."""
        params, method = call.params, call.method
        if method == "completion/complete":
            return await self._complete(call, channel)
        kind = _KINDS[method]
        name = params.uri if kind == "resources" else params.name
        routes = self._routes if call.principal is None else {}  # routes may differ between principals
        found = routes.get((kind, name)) or await self._owner(kind, name, call)
        if found is None:
            return None
        mount, inner = found
        params = replace(params, uri=inner) if kind == "resources" else replace(params, name=inner)
        result = await self._pass_on(mount, call, params, channel)
        if kind == "tools" and result is not None and len(routes) < ROUTES_KEPT:
            routes[kind, name] = found
        return result

    async def _complete(self, call: Call, channel: Channel) -> Struct | Raw | None:
        params, ref = call.params, call.params.ref
        if isinstance(ref, ResourceTemplateReference):
            found = await self._owner("templates", ref.uri, call)
            renamed = None if found is None else replace(ref, uri=found[1])
        else:
            found = await self._owner("prompts", ref.name, call)
            renamed = None if found is None else replace(ref, name=found[1])
        if found is None:
            return None
        return await self._pass_on(found[0], call, replace(params, ref=renamed), channel)

    async def _pass_on(
        self, mount: Mount, call: Call, params: Struct, channel: Channel
    ) -> Struct | Raw | None:
        try:
            result = await mount.part.respond(call.with_params(params), channel)
        except ProtocolError as error:
            if error.kind in _ABSENT and mount.naming.prefix:
                return None  # report the requested name
            raise
        if type(result) is Raw and mount.naming.prefix and b'"uri"' in bytes(result):
            row = self._server.dispatcher.admission.methods.known[call.revision.name][call.method]
            result = call.codec.decode_result(row, result)
        return mount.naming.result(result)

    async def set_level(self, call: Call, channel: Channel) -> None:
        """Forward the log level of the client to the mounted servers."""
        await asyncio.gather(*(mount.part.set_level(call, channel) for mount in self.mounts))

    def receive_notification(self, notice: Notice) -> None:
        self._own_methods.receive_notification(notice)

    # --- subscriptions ------------------------------------------------------------------------------------------------

    async def watch(self, uri: str, call: Call) -> bool:
        """Subscribe to ``uri``. Return False if it has no owner.

        Raises:
            ProtocolError: it is not visible to the caller.
        """
        found = await self._owner("resources", uri, call)
        if found is None:
            return False
        mount, inner = found
        await mount.part.watch(inner, call)
        self._watched[uri] = found
        return True

    def unwatch(self, uri: str) -> None:
        """Unsubscribe from ``uri``: it has no subscribers left."""
        transforms = self._server.registry.transforms
        found = self._watched.pop(uri if transforms is None else transforms.known_as(uri), None)
        if found is not None:
            found[0].part.unwatch(found[1])

    async def sees(self, uri: str, call: Call) -> bool:
        """Return whether a subscriber of ``uri`` can still see it."""
        for mount, inner in self.owners_of_uri(uri):
            if await mount.part.sees(inner, call):
                return True
        return False

    def _session_ended(self, session: Session) -> None:
        for mount in self.mounts:
            mount.part.session_ended(session)


def _inside(server: Server) -> set[Server]:
    """Return a server and all servers mounted in it."""
    found = {server}
    if isinstance(server.registry.composition, Mounts):
        for mount in server.registry.composition.mounts:
            if isinstance(mount.part, ServerProvider):
                found |= _inside(mount.part.server)
    return found
