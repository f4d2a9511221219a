"""Name collisions of components: refused at registration if known then, otherwise logged."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from ..errors import RegistrationError
from ..server.composition import ListName
from ..server.server import Server
from .naming import LISTINGS_KEPT
from .providers import ComponentList, ComponentProvider, ServerProvider
from .selectors import KINDS, Traits
from .transforms import View

log = logging.getLogger("dovetail.gateway")


class Collisions:
    """The reported collisions of one server; each is logged once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def report(self, text: str) -> None:
        if text not in self._said and len(self._said) < LISTINGS_KEPT:
            self._said.add(text)
            log.warning("%s", text)

    def look(self, server: Server, views: Sequence[View], kind: ListName, there: ComponentList) -> None:
        """Report components that are left out because another one was renamed to their name."""
        own = f"server {server.name!r}"
        for definition in there.entries:
            traits = Traits.of(definition, kind)
            found = _lost(views, traits)
            if found is not None:
                name, taker = found
                self.report(
                    f"{name!r} of {there.origins.get(traits.key, own)} is left out of the list: "
                    f"{taker!r} of {there.origins.get(taker, own)} was renamed to its name"
                )


def _lost(views: Iterable[View], traits: Traits) -> tuple[str, str] | None:
    """Return the name that a component loses in the views, and the component that takes it."""
    name = traits.key
    for view in views:
        if not view.chooses(name, traits):
            return None
        if (taker := view.taker(name, traits.kind)) is not None:
            return view.outer(name, traits.kind), taker
        name = view.outer(name, traits.kind)
    return None


def known(server: Server, kind: ListName) -> Iterator[tuple[str, Traits, str]]:
    """Return the components before the views that are known without a request, with their origin."""
    for entry in server.registry.table(kind).values():
        traits = Traits.of(entry.definition, kind)
        yield traits.key, traits, f"server {server.name!r}"
    for mount in () if server.registry.composition is None else server.registry.composition.mounts:
        for name, traits in shown_by(mount.part, kind):
            yield mount.naming.renamed(kind, name), traits, mount.part.label


def shown_by(part: ComponentProvider, kind: ListName) -> Iterator[tuple[str, Traits]]:
    """Return the components that a server in this process lists. Those of upstreams are not known."""
    if isinstance(part, ServerProvider):
        transforms = part.server.registry.transforms
        for name, traits, _ in known(part.server, kind):
            names = [name] if transforms is None else transforms.names(name, traits, ())
            if names is not None:
                yield names[-1], traits


def settle(server: Server, view: View) -> None:
    """Resolve the names in ``rename`` of a new view.

    Raises:
        RegistrationError: a new name is in use; the message says by which component.
    """
    there: dict[ListName, dict[str, tuple[Traits, str]]] = {kind: {} for kind in KINDS}
    for kind, found in there.items():
        for name, traits, origin in known(server, kind):
            names = (
                [name]
                if server.registry.transforms is None
                else server.registry.transforms.names(name, traits, ())
            )
            if names is not None:
                found[names[-1]] = traits, origin
    for kind, found in there.items():
        for name, (traits, origin) in found.items():
            taker = view.taker(name, kind)
            if taker is None or not view.chooses(name, traits):
                continue
            if taker not in found and any(taker in others for others in there.values()):
                view.leave_name(taker, kind)  # the name is that of a tool, and this is a prompt
                continue
            of = f" of {found[taker][1]}" if taker in found else ""
            raise RegistrationError(
                f"cannot rename {taker!r}{of} to {view.outer(name, kind)!r}: the name is used by {origin}; "
                "rename or exclude that component too"
            )
