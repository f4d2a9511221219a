"""Own HTTP routes beside the endpoint: what an author's handler is given, what it gives back, whose path it is.

Paths are matched segment by segment: ``/items/{id}`` takes one segment, ``/files/{name:path}`` all that is left.
What is written out comes before what has blanks, then the order of registration decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..errors import RegistrationError
from .principal import Principal

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REST: Final = ":path"


class Request(Struct, frozen=True, kw_only=True):
    """One HTTP request to a route of the author's own."""

    method: str
    path: str
    params: Mapping[str, str]
    """The blanks of the path, filled in."""
    query: Mapping[str, str]
    """The members of the query; of one that comes twice the last. `query_string` has them all."""
    query_string: str
    headers: Mapping[str, str]
    """Names are in lower case."""
    body: bytes
    principal: Principal | None
    """Who is calling; None where nobody asked."""
    scope: Mapping[str, Any]
    """The ASGI scope, or a mapping that looks like one."""

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self, type: Any = Any) -> Any:
        """The body as JSON. Raises ValueError for anything else, which is answered with 400."""
        return msgspec.json.decode(self.body, type=type)


class Response(Struct, frozen=True):
    """What a route answers when the body alone does not say it.

    A body of text is ``text/plain``, bytes are ``application/octet-stream``, everything else is written as JSON.
    """

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = {}
    content_type: str | None = None


class Route(Struct, frozen=True, eq=False):
    """Who answers a path."""

    path: str
    handler: Callable[..., Any]
    methods: frozenset[str]
    auth: bool
    """The caller has to be known, where the server has somebody who asks."""

    def match(self, path: str) -> dict[str, str] | None:
        """The blanks of this route as ``path`` fills them; None when it is another path."""
        wanted, given = self.path.split("/"), path.split("/")
        found: dict[str, str] = {}
        for place, word in enumerate(wanted):
            name = word[1:-1] if word[:1] == "{" else None
            if name is not None and name.endswith(_REST):
                rest = "/".join(given[place:])
                # One that begins with a slash would be the whole path of a file to whoever joins it to a folder.
                inside = rest[:1] not in ("", "/") and _climbs_not(given)
                return {**found, name.removesuffix(_REST): rest} if inside else None
            if place >= len(given) or (word != given[place] if name is None else not given[place]):
                return None
            if name is not None:
                found[name] = given[place]
        return found if len(given) == len(wanted) and _climbs_not(given) else None


def _climbs_not(segments: list[str]) -> bool:
    return not any(segment in (".", "..") or "\\" in segment or "\0" in segment for segment in segments)


class Routes:
    """The routes of one server."""

    def __init__(self) -> None:
        self._fixed: dict[str, list[Route]] = {}
        self._open: list[Route] = []

    def add(self, route: Route) -> None:
        """Take ``route`` in.

        Raises:
            RegistrationError: its path is none, a method is none, or both are taken.
        """
        _check(route)
        known = [*self._fixed.get(route.path, ()), *(one for one in self._open if one.path == route.path)]
        if any(one.methods & route.methods for one in known):
            raise RegistrationError(f"the route {route.path!r} is already registered for one of its methods")
        if "{" in route.path:
            self._open.append(route)
        else:
            self._fixed.setdefault(route.path, []).append(route)

    def find(self, path: str) -> list[tuple[Route, dict[str, str]]]:
        """All that answer ``path``, whatever the method, the most exact first."""
        found = [(route, dict[str, str]()) for route in self._fixed.get(path, ())]
        matches = ((route, route.match(path)) for route in self._open)
        return found + [(route, params) for route, params in matches if params is not None]


def _check(route: Route) -> None:
    if not route.path.startswith("/") or "?" in route.path:
        raise RegistrationError(
            f"the path of a route begins with a slash and has no query, not {route.path!r}"
        )
    if unknown := route.methods - METHODS or not route.methods:
        said = ", ".join(sorted(unknown)) if isinstance(unknown, frozenset) else "none"
        raise RegistrationError(
            f"the methods of a route are some of {', '.join(sorted(METHODS))}, not {said}"
        )
    names: list[str] = []
    segments = route.path.split("/")
    for place, word in enumerate(segments):
        if "{" not in word and "}" not in word:
            continue
        name = word[1:-1].removesuffix(_REST)
        last = place == len(segments) - 1
        if word != f"{{{word[1:-1]}}}" or not name.isidentifier() or (word[:-1].endswith(_REST) and not last):
            raise RegistrationError(
                f"{word!r} in {route.path!r}: a blank is a whole segment, {{name}}, or last, {{name:path}}"
            )
        names.append(name)
    if len(set(names)) != len(names):
        raise RegistrationError(f"two blanks of {route.path!r} have one name")
