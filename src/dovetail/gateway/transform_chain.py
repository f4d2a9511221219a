"""`TransformChain`: the views of a server, applied to its lists and, in reverse, to calls.

All versions of all tools pass the views of `Server.transform` in order, then the visibility rules of the
caller. Of several remaining versions the newest has the plain name. A call passes the same steps backwards.
`component_views` does the same for prompts and resources. The chain runs before middleware, so middleware
sees original names.
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
from ..core.subscription_hub import LIST_KINDS
from ..drivers.middleware_chain import Next, Request
from ..errors import NAME_ECHO, ProtocolError
from ..middleware.response_limit import ResponseLimit
from ..model import CallToolResult, ListToolsResult, ResourceTemplateReference, Tool
from ..server.composition import ListName
from ..server.list_pages import Listing
from ..server.registry.tool_versions import VERSIONS, asked_for, joined, order, split
from ..server.server import Server
from .collisions import Collisions, settle
from .component_views import Components
from .naming import LISTINGS_KEPT
from .providers import ComponentList, own_entries
from .resource_visibility import SubscriptionVisibility
from .schema_profiles import Profiles, needs_restoring, restored
from .schema_profiles import shown as in_profile
from .search import CALL, FIND, Search
from .selectors import Traits
from .transforms import View
from .visibility import Rules, Visibility, admits

if TYPE_CHECKING:
    from .method_tools import MethodTool, MethodTools

_NONE: Final[Rules] = ()


class Found(Struct, frozen=True):
    """A called tool under its original name, and the mapping of its arguments."""

    key: str
    names: Sequence[str]
    """Its name before each view and after the last one, without a version."""


class Listed(Struct, frozen=True):
    """The tools of a caller."""

    shown: ComponentList
    listing: Listing
    everything: Sequence[Tool]
    """The tools that can be called, listed or not."""


class TransformChain:
    """The transform chain of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.views: list[View] = []
        self.visibility: Visibility | None = None
        self.profiles: Profiles | None = None
        self.response_limit: ResponseLimit | None = None
        self.search: Search | None = None
        self.method_tools: MethodTools | None = None
        self._schemas: dict[Any, tuple[int, dict[str, dict[str, Any]]]] = {}
        """By caller: the original argument schemas, until something changes."""
        self.edition = 0
        """Incremented with each change."""
        self.collisions = Collisions()
        self.components = Components(server, self)
        self._kept: OrderedDict[Any, Listed] = OrderedDict()

    def lists(self, kind: ListName) -> bool:
        """Return whether lists differ from the registered components."""
        return self.edition > 0 if kind == "tools" else self.components.concerns(kind)

    @property
    def varies(self) -> bool:
        """Return whether callers with the same permissions may see different lists."""
        return self.visibility is not None or self.profiles is not None

    def change(self) -> None:
        """Invalidate cached lists."""
        self.edition += 1
        hub = self._server.subscriptions.hub
        hub.client_uri = self.components.outer_uri if any(view.moves for view in self.views) else None
        if self.components.concerns("resources") or self.components.concerns("templates"):
            hub.visibility_filter = hub.visibility_filter or SubscriptionVisibility(self._server)
        for kind in LIST_KINDS:
            if kind == "tools" or self.components.concerns(kind):
                self._server.registry.changed(kind)

    def add_view(self, view: View) -> None:
        settle(self._server, view)
        self.views.append(view)
        self.change()

    def write_schemas(self, schemas: str | Mapping[str, str]) -> None:
        """List schemas in a profile, or in the profile of each client."""
        self.profiles = Profiles(schemas)
        self.change()

    def limit_results(self, max_bytes: int) -> None:
        """Split results that exceed ``max_bytes`` into pages."""
        self.response_limit = ResponseLimit(max_bytes)
        self.response_limit.attach(self._server)
        self._server.dispatcher.pipeline.compose()

    def find_tools(self, search: Search | None) -> None:
        """List only what ``search`` lists and make the rest searchable; None switches it off."""
        self.search = search
        self.change()

    def offer_as_tools(self, *, resources: bool | None, prompts: bool | None) -> None:
        """Offer resources or prompts as tools too; None changes nothing."""
        from .method_tools import MethodTools  # loaded with its first use

        tools = self.method_tools or MethodTools(self._server)
        tools.offer(resources=resources, prompts=prompts)
        self.method_tools = tools if tools.names else None
        self.change()

    async def _search(self, search: Search, request: Request) -> Struct | Raw:
        """Run ``search_tools`` on the tools that the caller may call and middleware lists."""
        found = (await self._listed(request.call)).everything
        left, _ = await self._server.dispatcher.pipeline.filtered("tools", request.call, found)
        return await search.find(request.call, left)

    def watch_visibility(self) -> Visibility:
        """Return the visibility rules, created on first use."""
        if self.visibility is None:
            self.visibility = Visibility(self._server)
        return self.visibility

    async def rules(self, call: Call) -> Rules:
        """Return the visibility rules of the caller."""
        return _NONE if self.visibility is None else await self.visibility.rules(call)

    # --- lists --------------------------------------------------------------------------------------------------------

    async def page(self, kind: ListName, call: Call, channel: Channel) -> Raw:
        """Return one page of a list."""
        kept = await (self._listed(call) if kind == "tools" else self.components.listed(kind, call))
        return await kept.listing.page(call, channel)

    async def shown(self, kind: ListName, call: Call) -> ComponentList:
        """Return the whole list, for a parent server."""
        return (await (self._listed(call) if kind == "tools" else self.components.listed(kind, call))).shown

    async def _listed(self, call: Call) -> Listed:
        server, rules = self._server, await self.rules(call)
        composition = server.registry.composition
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
                or len(there.entries) < len(server.registry.tools)
            )
            everything = shown.entries
            if self.search is not None:
                shown = replace(shown, entries=self.search.listed(everything))
            entries = shown.entries
            if self.method_tools is not None:
                entries = self._with_method_tools(self.method_tools, shown, rules, profile)
            listing = Listing(
                server.dispatcher,
                "tools",
                lambda: ((one, ()) for one in entries),
                ListToolsResult,
                private=private,
            )
            kept = self._kept[key] = Listed(shown, listing, everything)
            if len(self._kept) > LISTINGS_KEPT:
                self._kept.popitem(last=False)
        return kept

    def _with_method_tools(
        self, offered: MethodTools, shown: ComponentList, rules: Rules, profile: str
    ) -> list[Tool]:
        for tool in shown.entries:
            if tool.name in offered.names:
                self.collisions.report(
                    f"the tool {tool.name!r} is left out of the list: resources_as_tools and prompts_as_tools "
                    "need its name"
                )
        more = [
            in_profile(tool, profile)
            for tool in offered.listed()
            if admits(rules, tool.name, Traits.of(tool))
        ]
        return [*(tool for tool in shown.entries if tool.name not in offered.names), *more]

    def _built(self, version: Any, there: ComponentList, rules: Rules) -> ComponentList:
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
        return ComponentList(version, entries, others)

    def _written(self, shown: ComponentList, key: Any, profile: str) -> ComponentList:
        true = {tool.name: tool.input_schema for tool in (*shown.entries, *shown.older)}
        if len(self._schemas) >= LISTINGS_KEPT:
            self._schemas.clear()
        self._schemas[key] = (self._server.registry.generation, true)
        return replace(
            shown,
            entries=[in_profile(tool, profile) for tool in shown.entries],
            older=[in_profile(tool, profile) for tool in shown.older],
        )

    async def _true(self, name: str, arguments: Any, call: Call) -> Any:
        """Convert arguments to the original schema of the tool."""
        assert self.profiles is not None
        profile = self.profiles.of(call.client_info)
        if not needs_restoring(profile):
            return arguments
        key = (key_of(call.principal), await self.rules(call), profile)
        found = self._schemas.get(key)
        if found is None or found[0] != self._server.registry.generation:
            await self._listed(call)
            found = self._schemas.get(key)
        schema = None if found is None else found[1].get(name)
        return arguments if schema is None else restored(arguments, schema, profile)

    # --- calls --------------------------------------------------------------------------------------------------------

    async def find(self, name: str, call: Call) -> Found | None:
        """Find the tool with the listed name, or None if it is not visible to the caller."""
        base, pinned = name, None
        inner = self.before(name)
        if "@" in name and inner in (None, name):
            base, pinned = split(name)
            inner = self.before(base)
        if inner is None:
            return None
        rules = await self.rules(call)
        wanted = pinned or asked_for(call.meta)
        tools = self._server.registry.tools
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
        """Return the original name or URI, or None if it is not visible to the caller."""
        if kind == "tools":
            found = await self.find(name, call)
            return None if found is None else found.key
        if not self.components.concerns(kind):
            return name
        find = self.components.find_prompt if kind == "prompts" else self.components.find_address
        return await find(name, call)

    async def address(self, uri: str, call: Call) -> str:
        """Return the original URI.

        Raises:
            ProtocolError: it is not visible to the caller.
        """
        return await self.components.address(uri, call) if self.components.concerns("resources") else uri

    def known_as(self, uri: str) -> str:
        """Return the original URI, independent of the caller."""
        return self.components.inner_uri(uri) or uri

    def before(self, name: str, kind: ListName = "tools") -> str | None:
        """Return the name before all views; None if it was renamed."""
        found: str | None = name
        for view in reversed(self.views):
            found = None if found is None else view.inner(found, kind)
        return found

    def after(self, name: str, kind: ListName = "tools") -> str:
        """Return the name after all views."""
        for view in self.views:
            name = view.outer(name, kind)
        return name

    def names(self, name: str, traits: Traits, rules: Rules) -> list[str] | None:
        """Return the names of a component in each view, or None if a view leaves it out."""
        names = [name]
        for view in self.views:
            if not view.admits(names[-1], traits):
                return None
            names.append(view.outer(names[-1], traits.kind))
        return names if admits(rules, names[-1], traits) else None

    async def _versions(self, name: str, wanted: str | None, call: Call) -> Sequence[Traits]:
        """Return the known versions of a tool, newest first. An unknown tool of an upstream counts as one."""
        server = self._server
        own = server.registry.tools.versions(name)
        if own:
            usable = [one for one in own if wanted is not None or visible(one.rights, call.principal)]
            return [Traits(one.name, one.version, one.tags) for one in usable or own]
        found = (
            ()
            if server.registry.composition is None
            else await server.registry.composition.traits(name, call)
        )
        if wanted is not None and not any(_is(one, wanted, None) for one in found):
            tags = found[0].tags if found else frozenset[str]()
            return [*found, Traits(joined(name, wanted), wanted, tags)]
        return found or [Traits(name)]

    async def inward(self, name: str, arguments: Any, call: Call) -> tuple[str, Any]:
        """Return the original name and arguments of a call.

        Raises:
            ProtocolError: the tool or an argument is not visible to the caller.
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
        """Return the original call, and what executes it if that is not a handler.

        Raises:
            ProtocolError: the component or an argument is not visible to the caller.
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

    async def request_of(self, tool: MethodTool, call: Call) -> Call:
        """Return the request that a call of a method tool stands for.

        Raises:
            DovetailError: the tool is not visible to the caller, or an argument is wrong.
        """
        assert self.method_tools is not None
        definition = tool.definition
        if not admits(await self.rules(call), definition.name, Traits.of(definition)):
            raise _unknown(definition.name)
        profile = "spec" if self.profiles is None else self.profiles.of(call.client_info)
        return self.method_tools.request(tool, call, profile)

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
    """Return whether it is the requested version. Without a pinned version, a tool without a version is."""
    if traits.version is None:
        return pinned is None
    return order(traits.version) == order(wanted)


def _named(tool: Tool, name: str, versions: list[str | None]) -> Tool:
    """Return a tool under its listed name with its available versions."""
    if len(versions) > 1 or VERSIONS in (tool.meta or ()):
        meta = {key: value for key, value in (tool.meta or {}).items() if key != VERSIONS}
        tool = replace(tool, meta=meta if len(versions) == 1 else {**meta, VERSIONS: versions})
    return tool if tool.name == name else replace(tool, name=name)


def _unknown(name: str) -> ProtocolError:
    shown = name[:NAME_ECHO]
    return ProtocolError("tool_not_found", f"Unknown tool: {shown}", data={"tool": shown})
