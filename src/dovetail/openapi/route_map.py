"""Rules for operations: tool, resource, template or nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Literal

from msgspec import Struct

from ..errors import RegistrationError
from .operations import Operation

Kind = Literal["tool", "resource", "template"]


class Route(Struct, frozen=True):
    """Operations that match all conditions become ``to``; None: they are not registered.

    ``Route("resource", methods=["GET"], pattern=r"^/pets")``. ``pattern`` is a regular expression that is searched for
    in the path; an operation must have all ``tags``. Only GET operations can become resources: for others, the next
    route is tried.
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
    """Check the routes."""
    checked = tuple(routes)
    for route in checked:
        try:
            re.compile(route.pattern)
        except re.error as error:
            raise RegistrationError(f"the pattern {route.pattern!r} of a route: {error}") from None
        if route.to not in ("tool", "resource", "template", None):
            raise RegistrationError(f"a route is to 'tool', 'resource', 'template' or None, not {route.to!r}")
        if isinstance(route.methods, str) or isinstance(route.tags, str):
            raise RegistrationError("methods and tags of a route must be lists")
    return checked


def kind_of(operation: Operation, routes: tuple[Route, ...]) -> Kind | None:
    """Return the target of the first route that matches ``operation``; by default "tool"."""
    for route in routes:
        if route.matches(operation):
            return route.to
    return "tool"
