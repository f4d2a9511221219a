"""Two of a kind under one name: refused as soon as both are known, reported where it shows later."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..errors import RegistrationError
from ..server.composition import ListName
from .naming import LISTINGS_KEPT
from .providers import Part, ServerPart, Shown
from .selectors import KINDS, Traits
from .transforms import View

if TYPE_CHECKING:
    from ..server.server import Server

log = logging.getLogger("dovetail.gateway")


class Collisions:
    """Those of one server that were reported, so that each is once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def report(self, text: str) -> None:
        if text not in self._said and len(self._said) < LISTINGS_KEPT:
            self._said.add(text)
            log.warning("%s", text)

    def look(self, server: Server, views: Sequence[View], kind: ListName, there: Shown) -> None:
        """Report what is left out of a list because another was given its name."""
        own = f"server {server.name!r}"
        for definition in there.entries:
            traits = Traits.of(definition, kind)
            found = _lost(views, traits)
            if found is not None:
                name, taker = found
                self.report(
                    f"{name!r} of {there.origins.get(traits.key, own)} is left out: "
                    f"{taker!r} of {there.origins.get(taker, own)} was given its name"
                )


def _lost(views: Iterable[View], traits: Traits) -> tuple[str, str] | None:
    """The name that something loses on its way through the views, and to whom."""
    name = traits.key
    for view in views:
        if not view.chooses(name, traits):
            return None
        if (taker := view.taker(name, traits.kind)) is not None:
            return view.outer(name, traits.kind), taker
        name = view.outer(name, traits.kind)
    return None


def known(server: Server, kind: ListName) -> Iterator[tuple[str, Traits, str]]:
    """What is there before the server's views, as far as nobody has to be asked: its name, and whose it is."""
    for entry in server.register.table(kind):
        traits = Traits.of(entry.definition, kind)
        yield traits.key, traits, f"server {server.name!r}"
    for mount in () if server.composition is None else server.composition.mounts:
        for name, traits in shown_by(mount.part, kind):
            yield mount.naming.renamed(kind, name), traits, mount.part.label


def shown_by(part: Part, kind: ListName) -> Iterator[tuple[str, Traits]]:
    """What a server in this process shows under its own names; nothing is known of others."""
    if isinstance(part, ServerPart):
        transforms = part.server.transforms
        for name, traits, _ in known(part.server, kind):
            names = [name] if transforms is None else transforms.names(name, traits, ())
            if names is not None:
                yield names[-1], traits


def settle(server: Server, view: View) -> None:
    """Find out what ``rename`` of a new view means, now that it is known what there is.

    Raises:
        RegistrationError: a name that it gives is taken; the message says by whom.
    """
    there: dict[ListName, dict[str, tuple[Traits, str]]] = {kind: {} for kind in KINDS}
    for kind, found in there.items():
        for name, traits, origin in known(server, kind):
            names = [name] if server.transforms is None else server.transforms.names(name, traits, ())
            if names is not None:
                found[names[-1]] = traits, origin
    for kind, found in there.items():
        for name, (traits, origin) in found.items():
            taker = view.taker(name, kind)
            if taker is None or not view.chooses(name, traits):
                continue
            if taker not in found and any(taker in others for others in there.values()):
                view.leave_name(taker, kind)  # a tool is meant, and this is a prompt
                continue
            of = f" of {found[taker][1]}" if taker in found else ""
            raise RegistrationError(
                f"{view.outer(name, kind)!r}, as {taker!r}{of} would be called, is taken by {origin}: "
                "rename that one too, or leave it out"
            )
