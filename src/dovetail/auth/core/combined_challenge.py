"""What a server that answered 401 or 403 asks of us: its challenges, put together."""

from __future__ import annotations

from msgspec import Struct

from . import challenge

_SCHEMES = ("bearer", "dpop")


class Demand(Struct, frozen=True):
    """What the challenges of one answer come to."""

    resource_metadata: str | None = None
    scopes: tuple[str, ...] | None = None
    error: str | None = None


NOTHING = Demand()


def read(header: str | None) -> Demand:
    """The first word each of the Bearer and DPoP challenges has on a subject counts; other schemes are not ours."""
    found: dict[str, str] = {}
    for each in challenge.read(header or ""):
        if each.scheme.lower() in _SCHEMES:
            for name, value in each.parameters.items():
                found.setdefault(name, value)
    scope = found.get("scope")
    scopes = None if scope is None else tuple(dict.fromkeys(scope.split()))
    return Demand(found.get("resource_metadata"), scopes, found.get("error"))
