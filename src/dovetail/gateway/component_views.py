"""Views of prompts, resources and templates; `transform_chain` has those of tools.

A component can be used exactly if it can be listed: a prompt by its name, a resource by its URI or a matching
template. A URI that no list contains is passed on unchanged, and refused where ``include`` limits the list.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from ..core.channel import Call
from ..core.principal import key_of
from ..errors import NAME_ECHO, URI_ECHO, ProtocolError, RegistrationError
from ..middleware.response_limit import REST
from ..model import (
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedResult,
    ResourceTemplateReference,
    ToolReference,
)
from ..server.composition import ListName
from ..server.list_pages import Listing
from ..server.registry.uri_templates import UriTemplate
from ..server.server import Server
from ..wire.methods import METHODS
from .naming import LISTINGS_KEPT, relocated
from .providers import ComponentList, own_entries
from .selectors import Traits
from .visibility import Rules, admits

if TYPE_CHECKING:
    from .transform_chain import TransformChain

_RESULTS: Final[Mapping[ListName, Callable[[list[Any]], PaginatedResult]]] = {
    "prompts": ListPromptsResult,
    "resources": ListResourcesResult,
    "templates": ListResourceTemplatesResult,
}
_NAMES: Final[Mapping[ListName, str]] = {
    "prompts": "name",
    "resources": "uri",
    "templates": "uri_template",
}


_WITH_ADDRESSES: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods whose results may contain URIs."""


class ListedOthers(Struct, frozen=True):
    """The components of one kind: all of them, and those listed for a caller."""

    shown: ComponentList
    listing: Listing
    there: Mapping[str, Traits]
    templates: tuple[tuple[UriTemplate | None, Traits], ...]
    """None for templates of upstreams with an unknown syntax: they can exclude a URI, but not admit it."""


class Components:
    """The views of prompts, resources and templates."""

    def __init__(self, server: Server, transforms: TransformChain) -> None:
        self._server, self._transforms = server, transforms
        self._kept: OrderedDict[Any, ListedOthers] = OrderedDict()

    def concerns(self, kind: ListName) -> bool:
        """Return whether a view may change components of ``kind``."""
        transforms = self._transforms
        return transforms.visibility is not None or any(view.concerns(kind) for view in transforms.views)

    # --- lists --------------------------------------------------------------------------------------------------------

    async def listed(self, kind: ListName, call: Call) -> ListedOthers:
        """Return the components of ``kind``, and those listed for the caller."""
        server, rules = self._server, await self._transforms.rules(call)
        composition = server.registry.composition
        there = (
            own_entries(server, kind, call) if composition is None else await composition.shown(kind, call)
        )
        version = (there.version, self._transforms.edition, rules)
        key = (kind, key_of(call.principal), rules)
        kept = self._kept.get(key)
        if kept is None or kept.shown.version != version:
            self._transforms.collisions.look(server, self._transforms.views, kind, there)
            traits = {one.key: one for one in (Traits.of(each, kind) for each in there.entries)}
            shown = ComponentList(version, self._built(kind, there, traits, rules))
            entries = shown.entries
            listing = Listing(
                server.dispatcher, kind, lambda: ((one, ()) for one in entries), _RESULTS[kind], private=True
            )
            matching = _compiled(traits.values()) if kind == "templates" else ()
            kept = self._kept[key] = ListedOthers(shown, listing, traits, matching)
            if len(self._kept) > LISTINGS_KEPT:
                self._kept.popitem(last=False)
        return kept

    def _built(
        self, kind: ListName, there: ComponentList, traits: Mapping[str, Traits], rules: Rules
    ) -> list[Any]:
        found: dict[str, Any] = {}
        for definition, one in zip(there.entries, traits.values(), strict=True):
            names = self._transforms.names(one.key, one, rules)
            if names is None:
                continue
            for view, name in zip(self._transforms.views, names, strict=False):
                definition = view.shown(definition, name, kind)
            if names[-1] != one.key:
                definition = replace(definition, **{_NAMES[kind]: names[-1]})
            found.setdefault(names[-1], definition)
        return list(found.values())

    # --- lookup
    # -------------------------------------------------------------------------------------------------------

    async def find_prompt(self, name: str, call: Call) -> str | None:
        """Return the original name of a prompt, or None if it is not visible to the caller."""
        inner = self._transforms.before(name, "prompts")
        if inner is None:
            return None
        there = (await self.listed("prompts", call)).there
        traits = there.get(inner, Traits(inner, kind="prompts"))
        return (
            None
            if self._transforms.names(inner, traits, await self._transforms.rules(call)) is None
            else inner
        )

    async def find_address(self, uri: str, call: Call) -> str | None:
        """Return the original URI, or None if it is not visible to the caller."""
        inner = self.inner_uri(uri)
        if inner is None:
            return None
        rules = await self._transforms.rules(call)
        resource = (await self.listed("resources", call)).there.get(inner)
        templates = None if resource is not None else (await self.listed("templates", call))
        reading = () if templates is None else self._reading(inner, templates)
        if not any(template for template, _ in reading) and resource is None:
            resource = Traits(inner, kind="resources")
        for template, traits in reading:
            if self._transforms.names(traits.key, traits, rules) is None:
                return None
            if template is not None and any(
                self._left_out(each, rules) for each in self._spellings(template, inner, rules)
            ):
                return None
        return None if resource and self._transforms.names(inner, resource, rules) is None else inner

    def _reading(self, inner: str, listed: ListedOthers) -> Iterable[tuple[UriTemplate | None, Traits]]:
        """Return the template that reads a local URI, or all templates of upstreams that may match it."""
        own = self._server.registry.find_resource(inner)
        if own is not None:
            return [(each, traits) for each, traits in listed.templates if traits.key == own[0].name]
        return [
            (each, traits)
            for each, traits in listed.templates
            if (
                inner.startswith(traits.key.partition("{")[0])
                if each is None
                else each.match(inner) is not None
            )
        ]

    def _spellings(self, template: UriTemplate, inner: str, rules: Rules) -> Iterable[str]:
        """Yield a URI, and the excluded URIs with the same template values."""
        views, values = self._transforms.views, template.match(inner)
        named = [(name, None) for _, selection in rules for name in selection.names("resources")]
        before = [(name, place) for place, view in enumerate(views) for name in view.left_out]
        known = (self.inner_uri(name, place) for name, place in (*named, *before))
        return [inner, *(one for one in known if one is not None and template.match(one) == values)]

    def _left_out(self, inner: str, rules: Rules) -> bool:
        """Return whether this URI is excluded by name."""
        alone, name = Traits(inner, kind="resources"), inner
        for view in self._transforms.views:
            if view.leaves_out(name, alone):
                return True
            name = view.outer_uri(name)
        return not admits(rules, name, alone)

    def inner_uri(self, uri: str, place: int | None = None) -> str | None:
        """Return the URI before all views, or before view number ``place``. None: it was renamed."""
        found: str | None = uri
        for view in reversed(self._transforms.views[:place]):
            found = None if found is None else view.inner_uri(found)
        return found

    def outer_uri(self, uri: str) -> str:
        """Return the URI after all views."""
        for view in self._transforms.views:
            uri = view.outer_uri(uri)
        return uri

    async def address(self, uri: str, call: Call) -> str:
        """Return the original URI.

        Raises:
            ProtocolError: it is not visible to the caller.
        """
        found = await self.find_address(uri, call)
        if found is None:
            raise ProtocolError("resource_not_found", data={"uri": uri[:URI_ECHO]})
        return found

    async def prompt(self, call: Call) -> Call:
        """Return ``prompts/get`` with the original name.

        Raises:
            ProtocolError: it is not visible to the caller.
        """
        name = call.params.name
        if not self.concerns("prompts"):
            return call
        found = await self.find_prompt(name, call)
        if found is None:
            shown = name[:NAME_ECHO]
            raise ProtocolError("prompt_not_found", f"Unknown prompt: {shown}", data={"prompt": shown})
        return call if found == name else call.with_params(replace(call.params, name=found))

    async def resource(self, call: Call) -> Call:
        """Return ``resources/read`` with the original URI.

        Raises:
            ProtocolError: it is not visible to the caller.
        """
        uri = call.params.uri
        if (self._transforms.response_limit is not None and uri.startswith(REST)) or not (
            self.concerns("resources") or self.concerns("templates")
        ):
            return call
        found = await self.address(uri, call)
        return call if found == uri else call.with_params(replace(call.params, uri=found))

    def relocated(self, call: Call, result: Struct | Raw) -> Struct | Raw:
        """Return a result with the URIs that clients know."""
        if call.method not in _WITH_ADDRESSES or not any(view.moves for view in self._transforms.views):
            return result
        if isinstance(result, Raw):
            if b'"uri"' not in bytes(result):
                return result
            result = call.codec.decode_result(METHODS[call.method], result)
        return relocated(result, self.outer_uri)

    async def referred(self, ref: Any, call: Call) -> Any:
        """Return the original reference of a completion, or None if it is not visible to the caller."""
        if isinstance(ref, ToolReference):
            found = await self._transforms.find(ref.name, call)
            return None if found is None else replace(ref, name=found.key)
        if not isinstance(ref, ResourceTemplateReference):
            name = await self.find_prompt(ref.name, call) if self.concerns("prompts") else ref.name
            return None if name is None else replace(ref, name=name)
        if not (self.concerns("templates") or self.concerns("resources")):
            return ref
        inner = self._transforms.before(ref.uri, "templates")
        traits = None if inner is None else (await self.listed("templates", call)).there.get(inner)
        if inner is None or traits is None:  # a URI of a template, or unknown
            uri = await self.find_address(ref.uri, call)
            return None if uri is None else replace(ref, uri=uri)
        names = self._transforms.names(inner, traits, await self._transforms.rules(call))
        return None if names is None else replace(ref, uri=inner)


def _compiled(found: Iterable[Traits]) -> tuple[tuple[UriTemplate | None, Traits], ...]:
    compiled: list[tuple[UriTemplate | None, Traits]] = []
    for traits in found:
        try:
            compiled.append((UriTemplate(traits.key), traits))
        except RegistrationError:
            compiled.append((None, traits))
    return tuple(compiled)
