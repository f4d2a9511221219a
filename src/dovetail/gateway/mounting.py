"""What a server shows beside what is registered with it: the services mounted in it.

`Mounts` is the `Elsewhere` of a server. A name the server does not know is looked up here: the prefix says whose it is,
the part gets the call with the name as it knows it, and its answer goes back. Lists are put together anew whenever one
of the parts says it has another one, so that what a part gains or loses shows.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from ..core.channel import Call, Channel
from ..core.principal import key_of
from ..core.rights import Rights
from ..core.subscriptions import LIST_KINDS, News
from ..errors import DovetailError, ProtocolError, RegistrationError
from ..model import (
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedResult,
    ResourceTemplateReference,
)
from ..model.meta import SKILLS_EXTENSION, TASKS_EXTENSION, VIA
from ..openapi.asgi import App, AsgiFetch
from ..server.elsewhere import ListName, TaskTool
from ..server.listing import Listing
from ..server.registering.versions import split
from ..server.server import Server
from ..settings import HttpOptions
from .bounds import LISTINGS_KEPT, ROUTES_KEPT
from .naming import Naming
from .parts import LISTS, LoopError, Part, ServerPart, Shown, own_entries
from .selecting import Traits, key_of_definition
from .skills import offer_skills

log = logging.getLogger("dovetail.gateway")

_RESULTS: Final[Mapping[ListName, Callable[[list[Any]], PaginatedResult]]] = {
    "tools": ListToolsResult,
    "resources": ListResourcesResult,
    "templates": ListResourceTemplatesResult,
    "prompts": ListPromptsResult,
}
_KINDS: Final[Mapping[str, ListName]] = {
    "tools/call": "tools",
    "prompts/get": "prompts",
    "resources/read": "resources",
}
_ABSENT: Final = frozenset(
    {"tool_not_found", "prompt_not_found", "resource_not_found", "completion_not_found"}
)


def mount(server: Server, child: Server | Part | App, prefix: str | None) -> None:
    """`Server.mount`. An ASGI application is asked over HTTP, but without a socket."""
    if callable(child):
        from .proxy import Proxy  # which mounts something itself

        child = Proxy(f"http://localhost{HttpOptions().path}", http=AsgiFetch(child))
    if not isinstance(server.elsewhere, Mounts):
        server.elsewhere = Mounts(server)
    server.elsewhere.add(ServerPart(child) if isinstance(child, Server) else child, prefix)


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


class Merged(Struct, eq=False):
    """A list that was put together."""

    listing: Listing
    shown: Shown
    steady: int = -1
    """At which generation of the server it is known to be right without asking anybody."""


class Mounts:
    """The services mounted in one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.mounts: list[Mount] = []
        self._prefixed: dict[str, Mount] = {}
        self._bare: list[Mount] = []
        self._merged: OrderedDict[tuple[ListName, str | None], Merged] = OrderedDict()
        self._routes: dict[tuple[ListName, str], tuple[Mount, str]] = {}
        """Whose the tools are that were called since anything changed."""
        self._said: set[str] = set()
        """Collisions that were reported."""
        self._watched: dict[str, tuple[Mount, str]] = {}
        """By URI: whose it is, and what it is called there."""
        self._started = False
        server.methods |= {
            "tools/list": partial(self.page, "tools"),
            "resources/list": partial(self.page, "resources"),
            "resources/templates/list": partial(self.page, "templates"),
            "prompts/list": partial(self.page, "prompts"),
        }
        server.hub.rights = self.rights_of
        server.hub.abandoned = self.unwatch

    def add(self, part: Part, prefix: str | None) -> None:
        """Mount ``part``.

        Raises:
            RegistrationError: the prefix is taken, a name is taken, or a server would be mounted in itself.
        """
        naming = Naming(prefix)
        if naming.prefix in self._prefixed:
            taken = self._prefixed[naming.prefix].part.label
            raise RegistrationError(f"the prefix {prefix!r} of {part.label} is taken by {taken}")
        mount = Mount(part, naming)
        if isinstance(part, ServerPart):
            self._check(part, naming)
        self.mounts.append(mount)
        self._routes.clear()
        if naming.prefix:
            self._prefixed[naming.prefix] = mount
        else:
            self._bare.append(mount)
        part.follow(partial(self._news, mount))
        self._adopt(part)
        for kind in LIST_KINDS:
            self._server.changed(kind)

    async def remove(self, server: Server) -> None:
        """End and forget a mounted server."""
        mount = next(
            each for each in self.mounts if isinstance(each.part, ServerPart) and each.part.server is server
        )
        self.mounts.remove(mount)
        self._prefixed.pop(mount.naming.prefix, None)
        if mount in self._bare:
            self._bare.remove(mount)
        self._routes.clear()
        self._merged.clear()
        for kind in LIST_KINDS:
            self._server.changed(kind)
        await mount.part.stop()

    def _check(self, part: ServerPart, naming: Naming) -> None:
        if self._server in _inside(part.server):
            raise RegistrationError(f"{part.label} cannot be mounted in itself")
        for kind in LISTS:
            taken = dict.fromkeys(self._server.register.table(kind).entries, f"server {self._server.name!r}")
            for other in self.mounts:
                if isinstance(other.part, ServerPart):
                    names = other.part.server.register.table(kind).entries
                    taken |= {_renamed(other.naming, kind, name): other.part.label for name in names}
            for name in part.server.register.table(kind).entries:
                outer = _renamed(naming, kind, name)
                if outer in taken:
                    raise RegistrationError(
                        f"{outer!r} of {part.label} is taken by {taken[outer]}: mount it with another prefix"
                    )

    def _adopt(self, part: Part) -> None:
        """Offer what the part offers. What was offered once stays."""
        server, offered = self._server, part.capabilities
        naming = next(mount.naming for mount in self.mounts if mount.part is part)
        for name, found in part.param_headers.items():
            server.param_headers[naming.name(name)] = found
        for name in ("tools", "prompts", "resources", "completions"):
            if name in offered and name not in server.capabilities:
                server.add_capability(name, offered[name])
        if offered.has("tasks") or offered.has(f"extensions.{TASKS_EXTENSION}"):
            server.enable_tasks()
        if (skills := offered.extension(SKILLS_EXTENSION)) is not None:
            offer_skills(server, self, skills)

    def _news(self, mount: Mount, news: News) -> None:
        if news.session is not None or news.principal is not None:
            self._server.hub.publish(news)
        elif news.list is not None:
            self._routes.clear()
            self._adopt(mount.part)
            self._server.changed(news.list)
        elif news.uri is not None:
            self._server.hub.publish_resource_updated(mount.naming.uri(news.uri), news.meta)
        elif news.task is not None:
            self._server.hub.publish_task(news.task)

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the parts, all at once; the first failure of one in this process is raised."""
        if not self._started:
            self._started = True
            await asyncio.gather(*(mount.part.start(self._server) for mount in self.mounts))
            for mount in self.mounts:
                self._adopt(mount.part)

    async def stop(self) -> None:
        self._started = False
        for mount in reversed(self.mounts):
            await mount.part.stop()

    # --- who has it ---------------------------------------------------------------------------------------------------

    def _owners_of_name(self, name: str) -> Iterator[tuple[Mount, str]]:
        """Whose ``name`` may be, the longest prefix first: the cost is that of the name, not of the parts."""
        end = name.rfind("_")
        while end > 0:
            mount = self._prefixed.get(name[:end])
            if mount is not None:
                yield mount, name[end + 1 :]
            end = name.rfind("_", 0, end)
        for mount in self._bare:
            yield mount, name

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
        return [replace(one, key=mount.naming.name(one.key)) for one in await mount.part.traits(inner, call)]

    def task_tool(self, name: str) -> TaskTool | None:
        """What decides whether a call of this tool becomes a task of ours."""
        for mount, inner in self._owners_of_name(name):
            found = mount.part.task_tool(inner)
            if found is not None:
                return replace(found, name=name)
        return None

    def scopes(self) -> frozenset[str]:
        servers = [mount.part.server for mount in self.mounts if isinstance(mount.part, ServerPart)]
        return frozenset[str]().union(*(server.component_scopes() for server in servers))

    def rights_of(self, uri: str) -> Rights:
        found = self._server.register.find_resource(uri)
        if found is not None:
            return found[0].rights
        for mount, inner in self.owners_of_uri(uri):
            if rights := mount.part.rights_of(inner):
                return rights
        return ()

    # --- calls --------------------------------------------------------------------------------------------------------

    async def respond(self, call: Call, channel: Channel) -> Struct | Raw | None:
        """Have the part answer whose component it is; None when it is nobody's."""
        params, method = call.params, call.method
        if method == "completion/complete":
            return await self._complete(call, channel)
        kind = _KINDS[method]
        name = params.uri if kind == "resources" else params.name
        found = self._routes.get((kind, name)) or await self._owner(kind, name, call)
        if found is None:
            return None
        mount, inner = found
        params = replace(params, uri=inner) if kind == "resources" else replace(params, name=inner)
        result = await self._pass_on(mount, call, params, channel)
        if kind == "tools" and result is not None and len(self._routes) < ROUTES_KEPT:
            self._routes[kind, name] = found
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
            result = await mount.part.respond(call.instead(params), channel)
        except ProtocolError as error:
            if error.kind in _ABSENT and mount.naming.prefix:
                return None  # told of with the name it was asked for
            raise
        if type(result) is Raw and mount.naming.prefix and b'"uri"' in bytes(result):
            row = self._server.admission.offers.known[call.revision.name][call.method]
            result = call.codec.decode_result(row, result)
        return mount.naming.result(result)

    # --- lists --------------------------------------------------------------------------------------------------------

    async def page(self, kind: ListName, call: Call, channel: Channel) -> Raw:
        """A page of what the server and its parts show."""
        return await (await self._merge(kind, call)).listing.page(call, channel)

    async def shown(self, kind: ListName, call: Call) -> Shown:
        """All of it, for a server this one is mounted in."""
        return (await self._merge(kind, call)).shown

    def known(self, kind: ListName, call: Call) -> Shown | None:
        """All of it, where nothing has changed since it was put together and nothing else could; None: ask."""
        plain = call.principal is None and VIA not in call.meta
        kept = self._merged.get((kind, None)) if plain else None
        return None if kept is None or kept.steady != self._server.generation else kept.shown

    def steady(self, kind: ListName) -> bool:
        """Whether callers without a principal are shown the same until somebody says that it changed."""
        if any(entry.rights for entry in self._server.register.table(kind)):
            return False
        return all(mount.part.steady(kind) for mount in self.mounts)

    async def _merge(self, kind: ListName, call: Call) -> Merged:
        key = (kind, key_of(call.principal))
        kept = self._merged.get(key)
        generation = self._server.generation
        if kept is not None and kept.steady == generation and VIA not in call.meta:
            return kept  # but what came through a proxy has to be asked about: it may have come from here
        own = own_entries(self._server, kind, call)
        shown = [mount.part.known(kind, call) for mount in self.mounts]
        unknown = [place for place, each in enumerate(shown) if each is None]
        asked = await asyncio.gather(*(self._ask(self.mounts[place], kind, call) for place in unknown))
        for place, each in zip(unknown, asked, strict=True):
            shown[place] = each
        versions = (own.version, *(None if each is None else each.version for each in shown))
        if kept is None or kept.shown.version != versions:
            entries, older = self._joined(kind, own, shown)
            listing = Listing(
                self._server, kind, lambda: ((one, ()) for one in entries), _RESULTS[kind], private=True
            )
            kept = self._merged[key] = Merged(listing, Shown(versions, entries, older))
            if len(self._merged) > LISTINGS_KEPT:
                self._merged.popitem(last=False)
        if call.principal is None and None not in shown and self.steady(kind):
            kept.steady = generation
        return kept

    async def _ask(self, mount: Mount, kind: ListName, call: Call) -> Shown | None:
        try:
            return await mount.part.shown(kind, call)
        except LoopError:
            raise  # whoever asked leads back here, and is to be left out there
        except DovetailError as error:
            log.warning("%s is left out of the list of %s: %s", mount.part.label, kind, error.message)
            return None

    def _joined(self, kind: ListName, own: Shown, shown: list[Shown | None]) -> tuple[list[Any], list[Any]]:
        """All definitions, of two with one name the first; and the older versions of those."""
        found = {key_of_definition(kind, one): one for one in own.entries}
        origins = dict.fromkeys(found, f"server {self._server.name!r}")
        for mount, each in zip(self.mounts, shown, strict=True):
            for one in () if each is None else mount.definitions(kind, each):
                key = key_of_definition(kind, one)
                if key in found:
                    self._report(f"{key!r} of {mount.part.label} is left out: {origins[key]} has it already")
                    continue
                found[key] = one
                origins[key] = mount.part.label
        older = list(own.older)
        for mount, each in zip(self.mounts, shown, strict=True):
            named = [] if each is None else [mount.naming.definition(kind, one) for one in each.older]
            older += [one for one in named if origins.get(split(one.name)[0]) == mount.part.label]
        return list(found.values()), older

    def _report(self, text: str) -> None:
        if text not in self._said and len(self._said) < LISTINGS_KEPT:
            self._said.add(text)
            log.warning("%s", text)

    # --- subscriptions ------------------------------------------------------------------------------------------------

    async def watch(self, uri: str, call: Call) -> bool:
        """Somebody wants to hear of ``uri``; False when it is nobody's.

        Raises:
            ProtocolError: it is not there for them.
        """
        found = await self._owner("resources", uri, call)
        if found is None:
            return False
        mount, inner = found
        await mount.part.watch(inner, call)
        self._watched[uri] = found
        return True

    def unwatch(self, uri: str) -> None:
        """Nobody is subscribed to ``uri`` any more."""
        shape = self._server.shape
        found = self._watched.pop(uri if shape is None else shape.known_as(uri), None)
        if found is not None:
            found[0].part.unwatch(found[1])


def _inside(server: Server) -> set[Server]:
    """A server and all that are mounted in it."""
    found = {server}
    if isinstance(server.elsewhere, Mounts):
        for mount in server.elsewhere.mounts:
            if isinstance(mount.part, ServerPart):
                found |= _inside(mount.part.server)
    return found


def _renamed(naming: Naming, kind: ListName, name: str) -> str:
    return naming.uri(name) if kind in ("resources", "templates") else naming.name(name)
