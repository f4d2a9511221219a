"""The combined challenges of a 401 or 403 response."""

from __future__ import annotations

from msgspec import Struct

from . import challenge

_SCHEMES = ("bearer", "dpop")


class Demand(Struct, frozen=True):
    """The combined parameters of the challenges of one response."""

    resource_metadata: str | None = None
    scopes: tuple[str, ...] | None = None
    error: str | None = None


NOTHING = Demand()


def read(header: str | None) -> Demand:
    """Combine the Bearer and DPoP challenges; the first value of a parameter wins. Other schemes are ignored."""
    found: dict[str, str] = {}
    for each in challenge.read(header or ""):
        if each.scheme.lower() in _SCHEMES:
            for name, value in each.parameters.items():
                found.setdefault(name, value)
    scope = found.get("scope")
    scopes = None if scope is None else tuple(dict.fromkeys(scope.split()))
    return Demand(found.get("resource_metadata"), scopes, found.get("error"))
