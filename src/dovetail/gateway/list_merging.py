"""Merged lists: the components of a server together with those of its mounted servers.

A list is merged again when one of its sources reports a change.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Raw, Struct

from ..core.channel import Call, Channel
from ..core.principal import key_of
from ..errors import DovetailError
from ..model import (
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedResult,
)
from ..model.meta import VIA
from ..server.composition import ListName
from ..server.list_pages import Listing
from ..server.registry.tool_versions import split
from ..server.server import Server
from .collisions import Collisions
from .naming import LISTINGS_KEPT
from .providers import ComponentList, LoopError, Mount, own_entries
from .selectors import key_of_definition

LIST_TIMEOUT: Final = 10.0
"""Seconds that a list waits for one mounted server."""


log = logging.getLogger("dovetail.gateway")

_RESULTS: Final[Mapping[ListName, Callable[[list[Any]], PaginatedResult]]] = {
    "tools": ListToolsResult,
    "resources": ListResourcesResult,
    "templates": ListResourceTemplatesResult,
    "prompts": ListPromptsResult,
}


class Merged(Struct, eq=False):
    """A merged list."""

    listing: Listing
    shown: ComponentList
    steady: int = -1
    """The generation of the server for which it is valid without a request."""


class MergedLists:
    """The merged lists of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.mounts: list[Mount] = []
        self._merged: OrderedDict[tuple[ListName, str | None], Merged] = OrderedDict()
        self._collisions = Collisions()

    async def page(self, kind: ListName, call: Call, channel: Channel) -> Raw:
        """Return a page of a merged list."""
        return await (await self._merge(kind, call)).listing.page(call, channel)

    async def shown(self, kind: ListName, call: Call) -> ComponentList:
        """Return the whole list, for a parent server."""
        return (await self._merge(kind, call)).shown

    def known(self, kind: ListName, call: Call) -> ComponentList | None:
        """Return the whole list if it is known without a request, else None."""
        plain = call.principal is None and VIA not in call.meta
        kept = self._merged.get((kind, None)) if plain else None
        return None if kept is None or kept.steady != self._server.registry.generation else kept.shown

    def is_static(self, kind: ListName) -> bool:
        """Return whether callers without a principal see the same list until a change is reported."""
        if any(entry.rights for entry in self._server.registry.table(kind).values()):
            return False
        return all(mount.part.is_static(kind) for mount in self.mounts)

    async def _merge(self, kind: ListName, call: Call) -> Merged:
        key = (kind, key_of(call.principal))
        kept = self._merged.get(key)
        generation = self._server.registry.generation
        if kept is not None and kept.steady == generation and VIA not in call.meta:
            return kept  # a request through a proxy must reach the sources, to detect loops
        own = own_entries(self._server, kind, call)
        mounts = tuple(self.mounts)  # may change during the requests
        shown = [mount.part.known(kind, call) for mount in mounts]
        unknown = [place for place, each in enumerate(shown) if each is None]
        asked = await asyncio.gather(*(self._ask(mounts[place], kind, call) for place in unknown))
        for place, each in zip(unknown, asked, strict=True):
            shown[place] = each
        versions = (own.version, *(None if each is None else each.version for each in shown))
        if kept is None or kept.shown.version != versions:
            joined = self._joined(kind, own, list(zip(mounts, shown, strict=True)), versions)
            entries = joined.entries
            listing = Listing(
                self._server.dispatcher,
                kind,
                lambda: ((one, ()) for one in entries),
                _RESULTS[kind],
                private=True,
            )
            kept = self._merged[key] = Merged(listing, joined)
            if len(self._merged) > LISTINGS_KEPT:
                self._merged.popitem(last=False)
        if call.principal is None and None not in shown and self.is_static(kind):
            kept.steady = generation
        return kept

    async def _ask(self, mount: Mount, kind: ListName, call: Call) -> ComponentList | None:
        try:
            async with asyncio.timeout(LIST_TIMEOUT):
                return await mount.part.shown(kind, call)
        except LoopError:
            raise  # a loop: the caller leaves this server out
        except (DovetailError, TimeoutError) as error:
            why = error.message if isinstance(error, DovetailError) else "no response"
            log.warning("server left out of a list server=%s list=%s: %s", mount.part.label, kind, why)
            return None

    def _joined(
        self,
        kind: ListName,
        own: ComponentList,
        shown: list[tuple[Mount, ComponentList | None]],
        version: Any,
    ) -> ComponentList:
        """Merge the definitions. Of two with one name the first wins. Include older versions of tools."""
        found = {key_of_definition(kind, one): one for one in own.entries}
        origins = dict.fromkeys(found, f"server {self._server.name!r}")
        for mount, each in shown:
            for one in () if each is None else mount.definitions(kind, each):
                key = key_of_definition(kind, one)
                if not self._admits(mount, kind, one):
                    continue
                if key in found:
                    self._collisions.report(
                        f"{key!r} of {mount.part.label} is left out of the list: {origins[key]} already has that name"
                    )
                    continue
                found[key] = one
                origins[key] = mount.part.label
        older = list(own.older)
        for mount, each in shown:
            named = [] if each is None else [mount.naming.definition(kind, one) for one in each.older]
            older += [
                one
                for one in named
                if origins.get(split(one.name)[0]) == mount.part.label and self._admits(mount, kind, one)
            ]
        return ComponentList(version, list(found.values()), older, origins)

    def _admits(self, mount: Mount, kind: ListName, definition: Any) -> bool:
        """Return whether the middleware of this server admits a component of a mounted server."""
        pipeline = self._server.dispatcher.pipeline
        if pipeline.admits is None:
            return True
        key = key_of_definition(kind, definition)
        return pipeline.admits(pipeline.of_definition(kind, key, definition, mount.part.name))
