"""What a server makes of what it has before anybody sees it: one pipeline for lists and for calls.

The tools that are there, all versions of them, go through the views of `Server.transform`, one after the other, then
through what is visible to the caller; of several versions the newest that is left has the name. A call takes the same
way backwards; `components.py` has it for all that is no tool. The pipeline of the server asks for it before middleware
runs, so middleware sees the names of before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from ..core.channel import Call, Channel
from ..core.principal import key_of
from ..core.rights import visible
from ..core.subscriptions import LIST_KINDS
from ..drivers.middleware_chain import Next, Request
from ..errors import NAME_ECHO, ProtocolError
from ..middleware.response_limit import ResponseLimit
from ..model import CallToolResult, ListToolsResult, ResourceTemplateReference, Tool
from ..server.composition import ListName
from ..server.list_pages import Listing
from ..server.registry.tool_versions import VERSIONS, asked_for, joined, order, split
from .collisions import Collisions, settle
from .component_views import Components
from .naming import LISTINGS_KEPT
from .providers import Shown, own_entries
from .resource_visibility import Sight
from .schema_profiles import Profiles, needs_restoring, restored
from .schema_profiles import shown as in_profile
from .search import CALL, FIND, Search
from .selectors import Traits
from .transforms import View
from .visibility import Rules, Visibility, admits

if TYPE_CHECKING:
    from ..server.server import Server

_NONE: Final[Rules] = ()


class Found(Struct, frozen=True):
    """A tool that is called, under the name it has without views, and what the views make of its arguments."""

    key: str
    names: Sequence[str]
    """Its name before each view and after the last, without a version."""


class Listed(Struct, frozen=True):
    """What a caller is shown."""

    shown: Shown
    listing: Listing
    everything: Sequence[Tool]
    """What can be called, listed or not."""


class TransformChain:
    """The pipeline of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.views: list[View] = []
        self.visibility: Visibility | None = None
        self.profiles: Profiles | None = None
        self.response_limit: ResponseLimit | None = None
        self.search: Search | None = None
        self._schemas: dict[Any, tuple[int, dict[str, dict[str, Any]]]] = {}
        """By caller: the true schemas of arguments, as long as nothing changes."""
        self.edition = 0
        """How often anything was changed."""
        self.collisions = Collisions()
        self.components = Components(server, self)
        self._kept: OrderedDict[Any, Listed] = OrderedDict()

    def lists(self, kind: ListName) -> bool:
        """Whether lists differ from what is there."""
        return self.edition > 0 if kind == "tools" else self.components.concerns(kind)

    @property
    def varies(self) -> bool:
        """Whether callers with the same rights are shown different things."""
        return self.visibility is not None or self.profiles is not None

    def change(self) -> None:
        """What is shown is different from now on."""
        self.edition += 1
        hub = self._server.hub
        hub.client_uri = self.components.outer_uri if any(view.moves for view in self.views) else None
        if self.components.concerns("resources") or self.components.concerns("templates"):
            hub.visibility_filter = hub.visibility_filter or Sight(self._server)
        for kind in LIST_KINDS:
            if kind == "tools" or self.components.concerns(kind):
                self._server.changed(kind)

    def add_view(self, view: View) -> None:
        settle(self._server, view)
        self.views.append(view)
        self.change()

    def write_schemas(self, schemas: str | Mapping[str, str]) -> None:
        """Show schemas as a profile, or the profile of each client, has them."""
        self.profiles = Profiles(schemas)
        self.change()

    def limit_results(self, max_bytes: int) -> None:
        """Give results in pages that are larger than this."""
        self.response_limit = ResponseLimit(max_bytes)
        self.response_limit.attach(self._server)
        self._server.pipeline.compose()

    def find_tools(self, search: Search | None) -> None:
        """List only what ``search`` lists, and let it find the rest; all of it with None."""
        self.search = search
        self.change()

    async def _search(self, search: Search, request: Request) -> Struct | Raw:
        """``search_tools`` among what the caller may call, as far as middleware leaves it in lists."""
        found = (await self._listed(request.call)).everything
        left, _ = await self._server.pipeline.filtered("tools", request.call, found)
        return await search.find(request.call, left)

    def watch_visibility(self) -> Visibility:
        """The rules by which callers see different things."""
        if self.visibility is None:
            self.visibility = Visibility(self._server)
        return self.visibility

    async def rules(self, call: Call) -> Rules:
        """What is hidden from whoever calls."""
        return _NONE if self.visibility is None else await self.visibility.rules(call)

    # --- lists --------------------------------------------------------------------------------------------------------

    async def page(self, kind: ListName, call: Call, channel: Channel) -> Raw:
        """One page of a list."""
        kept = await (self._listed(call) if kind == "tools" else self.components.listed(kind, call))
        return await kept.listing.page(call, channel)

    async def shown(self, kind: ListName, call: Call) -> Shown:
        """All of it, for a server this one is mounted in."""
        return (await (self._listed(call) if kind == "tools" else self.components.listed(kind, call))).shown

    async def _listed(self, call: Call) -> Listed:
        server, rules = self._server, await self.rules(call)
        composition = server.composition
        there = (
            own_entries(server, "tools", call)
            if composition is None
            else await composition.shown("tools", call)
        )
        profile = "spec" if self.profiles is None else self.profiles.of(call.client_info)
        version = (there.version, self.edition, rules, profile)
        key = (key_of(call.principal), rules, profile)
        kept = self._kept.get(key)
        if kept is None or kept.shown.version != version:
            self.collisions.look(server, self.views, "tools", there)
            shown = self._built(version, there, rules)
            if profile != "spec":
                shown = self._written(shown, key, profile)
            private = (
                composition is not None
                or self.visibility is not None
                or len(there.entries) < len(server.tools)
            )
            everything = shown.entries
            if self.search is not None:
                shown = replace(shown, entries=self.search.listed(everything))
            entries = shown.entries
            listing = Listing(
                server, "tools", lambda: ((one, ()) for one in entries), ListToolsResult, private=private
            )
            kept = self._kept[key] = Listed(shown, listing, everything)
            if len(self._kept) > LISTINGS_KEPT:
                self._kept.popitem(last=False)
        return kept

    def _built(self, version: Any, there: Shown, rules: Rules) -> Shown:
        left: dict[str, list[tuple[Traits, Tool]]] = {}
        for tools, older in ((there.entries, False), (there.older, True)):
            for tool in tools:
                traits = Traits.of(tool)
                name = split(tool.name)[0] if older else tool.name
                for view in self.views:
                    if not view.admits(name, traits):
                        break
                    tool, name = view.shown(tool, name), view.outer(name)
                else:
                    if admits(rules, name, traits):
                        left.setdefault(name, []).append((traits, tool))
        entries: list[Tool] = []
        others: list[Tool] = []
        for name, found in left.items():
            found.sort(key=lambda one: order(one[0].version), reverse=True)
            told = [traits.version for traits, _ in found]
            entries.append(_named(found[0][1], name, told))
            others += [_named(tool, joined(name, traits.version), told) for traits, tool in found[1:]]
        return Shown(version, entries, others)

    def _written(self, shown: Shown, key: Any, profile: str) -> Shown:
        true = {tool.name: tool.input_schema for tool in (*shown.entries, *shown.older)}
        if len(self._schemas) >= LISTINGS_KEPT:
            self._schemas.clear()
        self._schemas[key] = (self._server.generation, true)
        return replace(
            shown,
            entries=[in_profile(tool, profile) for tool in shown.entries],
            older=[in_profile(tool, profile) for tool in shown.older],
        )

    async def _true(self, name: str, arguments: Any, call: Call) -> Any:
        """The arguments as the true schema of the tool has them, whatever was shown."""
        assert self.profiles is not None
        profile = self.profiles.of(call.client_info)
        if not needs_restoring(profile):
            return arguments
        key = (key_of(call.principal), await self.rules(call), profile)
        found = self._schemas.get(key)
        if found is None or found[0] != self._server.generation:
            await self._listed(call)
            found = self._schemas.get(key)
        schema = None if found is None else found[1].get(name)
        return arguments if schema is None else restored(arguments, schema, profile)

    # --- calls --------------------------------------------------------------------------------------------------------

    async def find(self, name: str, call: Call) -> Found | None:
        """What is called ``name`` here; None for what is not shown to the caller."""
        base, pinned = name, None
        inner = self.before(name)
        if "@" in name and inner in (None, name):
            base, pinned = split(name)
            inner = self.before(base)
        if inner is None:
            return None
        rules = await self.rules(call)
        wanted = pinned or asked_for(call.meta)
        tools = self._server.register.tools
        if not rules and not any(view.by_traits for view in self.views):
            key = joined(inner, pinned)
            if wanted is None:
                key = tools.newest(inner, call.principal)
            elif tools.versions(inner):
                key = tools.find(key, None if pinned else wanted)
            names = self.names(inner, Traits(key), rules)
            return None if names is None else Found(key, names)
        for traits in await self._versions(inner, wanted, call):
            names = self.names(inner, traits, rules)
            if names is not None and (wanted is None or _is(traits, wanted, pinned)):
                return Found(traits.key, names)
        return None

    async def inner(self, kind: ListName, name: str, call: Call) -> str | None:
        """The name or address before all views; None for what is not shown to the caller."""
        if kind == "tools":
            found = await self.find(name, call)
            return None if found is None else found.key
        if not self.components.concerns(kind):
            return name
        find = self.components.find_prompt if kind == "prompts" else self.components.find_address
        return await find(name, call)

    async def address(self, uri: str, call: Call) -> str:
        """The address before all views.

        Raises:
            ProtocolError: it is not shown to the caller.
        """
        return await self.components.address(uri, call) if self.components.concerns("resources") else uri

    def known_as(self, uri: str) -> str:
        """What the server itself calls an address, whoever asks."""
        return self.components.inner_uri(uri) or uri

    def before(self, name: str, kind: ListName = "tools") -> str | None:
        """The name before all views; None for one that is called something else now."""
        found: str | None = name
        for view in reversed(self.views):
            found = None if found is None else view.inner(found, kind)
        return found

    def after(self, name: str, kind: ListName = "tools") -> str:
        """The name after all views."""
        for view in self.views:
            name = view.outer(name, kind)
        return name

    def names(self, name: str, traits: Traits, rules: Rules) -> list[str] | None:
        """The names of something on its way through the views; None where it does not come through."""
        names = [name]
        for view in self.views:
            if not view.admits(names[-1], traits):
                return None
            names.append(view.outer(names[-1], traits.kind))
        return names if admits(rules, names[-1], traits) else None

    async def _versions(self, name: str, wanted: str | None, call: Call) -> Sequence[Traits]:
        """All versions of a tool that are known, the newest first; a stranger's is taken at its word."""
        server = self._server
        own = server.register.tools.versions(name)
        if own:
            usable = [one for one in own if wanted is not None or visible(one.rights, call.principal)]
            return [Traits(one.name, one.version, one.tags) for one in usable or own]
        found = () if server.composition is None else await server.composition.traits(name, call)
        if wanted is not None and not any(_is(one, wanted, None) for one in found):
            tags = found[0].tags if found else frozenset[str]()
            return [*found, Traits(joined(name, wanted), wanted, tags)]
        return found or [Traits(name)]

    async def inward(self, name: str, arguments: Any, call: Call) -> tuple[str, Any]:
        """The name and arguments with which what is called here goes on.

        Raises:
            ProtocolError: it is not shown to the caller, or an argument is not.
        """
        found = await self.find(name, call)
        if found is None:
            raise _unknown(name)
        if self.profiles is not None:
            arguments = await self._true(name, arguments, call)
        for view, before in zip(reversed(self.views), reversed(found.names[:-1]), strict=True):
            arguments = view.arguments(before, arguments)
        return found.key, arguments

    async def resolve(self, call: Call) -> tuple[Call, Next | None]:
        """The call as it is without views, and what executes it where that is no handler.

        Raises:
            ProtocolError: what it names is not shown to the caller, or an argument is not.
        """
        params, method, run = call.params, call.method, None
        if method == "tools/call":
            if self.search is not None and params.name == FIND:
                return call, partial(self._search, self.search)
            if self.search is not None and params.name == CALL:
                meant = self.search.unwrapped(call)
                if not isinstance(meant, Call):
                    return call, partial(_answer, meant)
                call, params = meant, meant.params
            name, arguments = await self.inward(params.name, params.arguments, call)
            if name != params.name or arguments is not params.arguments:
                call = call.with_params(replace(params, name=name, arguments=arguments))
        elif method == "prompts/get":
            call = await self.components.prompt(call)
        elif method == "resources/read":
            call = await self.components.resource(call)
        elif method == "completion/complete" and self.edition:
            call = await self._completion(call)
        return call, run

    async def _completion(self, call: Call) -> Call:
        ref = call.params.ref
        found = await self.components.referred(ref, call)
        if found is None:
            name = ref.uri if isinstance(ref, ResourceTemplateReference) else ref.name
            raise ProtocolError("completion_not_found", f"nothing to complete for {name[:NAME_ECHO]!r}")
        return call if found is ref else call.with_params(replace(call.params, ref=found))


async def _answer(result: CallToolResult, request: Request) -> CallToolResult:
    return result


def _is(traits: Traits, wanted: str, pinned: str | None) -> bool:
    """Whether it is the version that is wanted: one without any is, unless it is called ``name@version``."""
    if traits.version is None:
        return pinned is None
    return order(traits.version) == order(wanted)


def _named(tool: Tool, name: str, versions: list[str | None]) -> Tool:
    """A tool under its name, saying which versions there are of it."""
    if len(versions) > 1 or VERSIONS in (tool.meta or ()):
        meta = {key: value for key, value in (tool.meta or {}).items() if key != VERSIONS}
        tool = replace(tool, meta=meta if len(versions) == 1 else {**meta, VERSIONS: versions})
    return tool if tool.name == name else replace(tool, name=name)


def _unknown(name: str) -> ProtocolError:
    shown = name[:NAME_ECHO]
    return ProtocolError("tool_not_found", f"Unknown tool: {shown}", data={"tool": shown})
