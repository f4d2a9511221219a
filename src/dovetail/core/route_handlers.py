"""Custom HTTP routes next to the MCP endpoint: path matching, the request passed to a handler, its response.

Paths are matched segment by segment: ``/items/{id}`` matches one segment, ``/files/{name:path}`` all
remaining ones. Literal segments take precedence over parameters, then the order of registration decides.
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


class RouteRequest(Struct, frozen=True, kw_only=True):
    """One HTTP request to a custom route."""

    method: str
    path: str
    params: Mapping[str, str]
    """Path parameters."""
    query: Mapping[str, str]
    """Query parameters; of repeated ones the last. `query_string` has all of them."""
    query_string: str
    headers: Mapping[str, str]
    """Header names are in lower case."""
    body: bytes
    principal: Principal | None
    """The caller; None for routes without authentication."""
    scope: Mapping[str, Any]
    """The ASGI scope, or an equivalent mapping."""

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self, type: Any = Any) -> Any:
        """Decode the body as JSON. Raises ValueError for anything else, which becomes status 400."""
        return msgspec.json.decode(self.body, type=type)


class RouteResponse(Struct, frozen=True):
    """The response of a custom route, with status and headers.

    A ``str`` body is ``text/plain``, bytes are ``application/octet-stream``, everything else is encoded as
    JSON.
    """

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = {}
    content_type: str | None = None


class CustomRoute(Struct, frozen=True, eq=False):
    """A path with its handler."""

    path: str
    handler: Callable[..., Any]
    methods: frozenset[str]
    auth: bool
    """Authentication is required, if the server has a verifier."""
    max_body_bytes: int | None = None
    """The largest body; None: `Limits.max_message_bytes`."""
    public: bool = False
    """Pages of any origin may call it. It has nothing but public data, and sets its CORS headers."""

    def match(self, path: str) -> dict[str, str] | None:
        """Return the path parameters if ``path`` matches, else None."""
        wanted, given = self.path.split("/"), path.split("/")
        found: dict[str, str] = {}
        for place, word in enumerate(wanted):
            name = word[1:-1] if word[:1] == "{" else None
            if name is not None and name.endswith(_REST):
                rest = "/".join(given[place:])
                # A value that begins with a slash would become an absolute path when joined to a folder.
                inside = rest[:1] not in ("", "/") and _stays_inside(given)
                return {**found, name.removesuffix(_REST): rest} if inside else None
            if place >= len(given) or (word != given[place] if name is None else not given[place]):
                return None
            if name is not None:
                found[name] = given[place]
        return found if len(given) == len(wanted) and _stays_inside(given) else None


def _stays_inside(segments: list[str]) -> bool:
    return not any(segment in (".", "..") or "\\" in segment or "\0" in segment for segment in segments)


class RouteTable:
    """The custom routes of one server."""

    def __init__(self) -> None:
        self._fixed: dict[str, list[CustomRoute]] = {}
        self._open: list[CustomRoute] = []

    def add(self, route: CustomRoute) -> None:
        """Register ``route``.

        Raises:
            RegistrationError: the path or a method is invalid, or both are registered already.
        """
        _check(route)
        known = [*self._fixed.get(route.path, ()), *(one for one in self._open if one.path == route.path)]
        if any(one.methods & route.methods for one in known):
            raise RegistrationError(f"the route {route.path!r} is already registered for one of its methods")
        if "{" in route.path:
            self._open.append(route)
        else:
            self._fixed.setdefault(route.path, []).append(route)

    def find(self, path: str) -> list[tuple[CustomRoute, dict[str, str]]]:
        """Return all routes that match ``path``, whatever their method, the most specific first."""
        found = [(route, dict[str, str]()) for route in self._fixed.get(path, ())]
        matches = ((route, route.match(path)) for route in self._open)
        return found + [(route, params) for route, params in matches if params is not None]


def _check(route: CustomRoute) -> None:
    if not route.path.startswith("/") or "?" in route.path:
        raise RegistrationError(f"a route path must begin with a slash and have no query: {route.path!r}")
    if unknown := route.methods - METHODS or not route.methods:
        said = ", ".join(sorted(unknown)) if isinstance(unknown, frozenset) else "none"
        raise RegistrationError(f"invalid route methods {said}; allowed: {', '.join(sorted(METHODS))}")
    names: list[str] = []
    segments = route.path.split("/")
    for place, word in enumerate(segments):
        if "{" not in word and "}" not in word:
            continue
        name = word[1:-1].removesuffix(_REST)
        last = place == len(segments) - 1
        if word != f"{{{word[1:-1]}}}" or not name.isidentifier() or (word[:-1].endswith(_REST) and not last):
            raise RegistrationError(
                f"{word!r} in {route.path!r}: a path parameter must be a whole segment"
                " {name}, or a final {name:path}"
            )
        names.append(name)
    if len(set(names)) != len(names):
        raise RegistrationError(f"path parameter used twice in {route.path!r}")
