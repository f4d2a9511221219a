"""Lists put together: what a server has registered, and what is mounted in it.

They are put together anew whenever one of the parts says it has another one, so that what a part gains or loses shows.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

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
from .collisions import Collisions
from .naming import LISTINGS_KEPT
from .providers import LoopError, Mount, Shown, own_entries
from .selectors import key_of_definition

if TYPE_CHECKING:
    from ..server.server import Server

LIST_PATIENCE: Final = 10.0
"""How long a list waits for what one server has to say to it."""


log = logging.getLogger("dovetail.gateway")

_RESULTS: Final[Mapping[ListName, Callable[[list[Any]], PaginatedResult]]] = {
    "tools": ListToolsResult,
    "resources": ListResourcesResult,
    "templates": ListResourceTemplatesResult,
    "prompts": ListPromptsResult,
}


class Merged(Struct, eq=False):
    """A list that was put together."""

    listing: Listing
    shown: Shown
    steady: int = -1
    """At which generation of the server it is known to be right without asking anybody."""


class MergedLists:
    """The lists of one server and its parts."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.mounts: list[Mount] = []
        self._merged: OrderedDict[tuple[ListName, str | None], Merged] = OrderedDict()
        self._collisions = Collisions()

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
        mounts = tuple(self.mounts)  # they may be others by the time all have answered
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
                self._server, kind, lambda: ((one, ()) for one in entries), _RESULTS[kind], private=True
            )
            kept = self._merged[key] = Merged(listing, joined)
            if len(self._merged) > LISTINGS_KEPT:
                self._merged.popitem(last=False)
        if call.principal is None and None not in shown and self.steady(kind):
            kept.steady = generation
        return kept

    async def _ask(self, mount: Mount, kind: ListName, call: Call) -> Shown | None:
        try:
            async with asyncio.timeout(LIST_PATIENCE):
                return await mount.part.shown(kind, call)
        except LoopError:
            raise  # whoever asked leads back here, and is to be left out there
        except (DovetailError, TimeoutError) as error:
            why = error.message if isinstance(error, DovetailError) else "it does not answer"
            log.warning("%s is left out of the list of %s: %s", mount.part.label, kind, why)
            return None

    def _joined(
        self, kind: ListName, own: Shown, shown: list[tuple[Mount, Shown | None]], version: Any
    ) -> Shown:
        """All definitions, of two with one name the first; and the older versions of those."""
        found = {key_of_definition(kind, one): one for one in own.entries}
        origins = dict.fromkeys(found, f"server {self._server.name!r}")
        for mount, each in shown:
            for one in () if each is None else mount.definitions(kind, each):
                key = key_of_definition(kind, one)
                if not self._admits(mount, kind, one):
                    continue
                if key in found:
                    self._collisions.report(
                        f"{key!r} of {mount.part.label} is left out: {origins[key]} has it already"
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
        return Shown(version, list(found.values()), older, origins)

    def _admits(self, mount: Mount, kind: ListName, definition: Any) -> bool:
        """Whether the middleware of this server lets a component of a part be used."""
        pipeline = self._server.pipeline
        if pipeline.admits is None:
            return True
        key = key_of_definition(kind, definition)
        return pipeline.admits(pipeline.of_definition(kind, key, definition, mount.part.name))
