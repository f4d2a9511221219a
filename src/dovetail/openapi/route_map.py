"""What becomes of an operation: a tool, a resource, a template or nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Literal

from msgspec import Struct

from ..errors import RegistrationError
from .operations import Operation

Kind = Literal["tool", "resource", "template"]


class Route(Struct, frozen=True):
    """Operations that match all of this become ``to``; None leaves them out.

    ``Route("resource", methods=["GET"], pattern=r"^/pets")``. ``pattern`` is a regular expression that is searched for
    in the path, ``tags`` are those that an operation must have, all of them. Only GET operations become resources:
    others go on to the next route.
    """

    to: Kind | None = "tool"
    methods: Collection[str] = ()
    pattern: str = ""
    tags: Collection[str] = ()

    def matches(self, operation: Operation) -> bool:
        return (
            (self.to in ("tool", None) or operation.method == "GET")
            and (not self.methods or operation.method in {method.upper() for method in self.methods})
            and set(self.tags) <= set(operation.tags)
            and re.search(self.pattern, operation.path) is not None
        )


def check(routes: Iterable[Route]) -> tuple[Route, ...]:
    """The routes, if all of them can be used."""
    checked = tuple(routes)
    for route in checked:
        try:
            re.compile(route.pattern)
        except re.error as error:
            raise RegistrationError(f"the pattern {route.pattern!r} of a route: {error}") from None
        if route.to not in ("tool", "resource", "template", None):
            raise RegistrationError(
                f"a route leads to 'tool', 'resource', 'template' or None, not {route.to!r}"
            )
        if isinstance(route.methods, str) or isinstance(route.tags, str):
            raise RegistrationError("methods and tags of a route are lists")
    return checked


def kind_of(operation: Operation, routes: tuple[Route, ...]) -> Kind | None:
    """What becomes of ``operation``: what the first route says that matches, and a tool without one."""
    for route in routes:
        if route.matches(operation):
            return route.to
    return "tool"
