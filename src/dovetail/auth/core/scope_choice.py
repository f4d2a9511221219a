"""The scopes to request."""

from __future__ import annotations

from collections.abc import Iterable

from .combined_challenge import Demand
from .discovery import AuthorizationTarget

OFFLINE = "offline_access"


def choose_scopes(
    place: AuthorizationTarget, demand: Demand, wanted: Iterable[str] | None, before: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the scopes of the next authorization.

    Authorization 2025-11-25, Scope Selection Strategy: those of the challenge; else all in the server's
    metadata; else none. Scopes that the user ``wanted`` replace the metadata. 2026-07-28: scopes requested
    ``before`` are kept when more are needed.
    """
    if demand.scopes is not None:
        chosen = [*(wanted or ()), *demand.scopes]
    elif wanted is not None:
        chosen = list(wanted)
    else:
        chosen = list(place.scopes or ())
    return tuple(dict.fromkeys([*before, *chosen]))


def with_offline(place: AuthorizationTarget, scopes: tuple[str, ...]) -> tuple[str, ...]:
    """Add the scope that grants refresh tokens.

    Authorization 2026-07-28: only if ``scopes_supported`` of the authorization server contains it.
    """
    if OFFLINE in (place.server.scopes_supported or ()) and OFFLINE not in scopes:
        return (*scopes, OFFLINE)
    return scopes
