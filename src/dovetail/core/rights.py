"""Who may use a component: one decision for seeing it in a list and for using it.

What a caller may not use it does not see. Scopes that are missing can be asked for, so using such a component says
which; where the author's own function says no, it is as if the component did not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..errors import ProtocolError
from .principal import Principal


class Right(Struct, frozen=True, eq=False):
    """One condition of using a component."""

    scopes: frozenset[str] = frozenset()
    """All of them are needed."""
    allows: Callable[[Principal | None], Any] | None = None
    """The author's function. It fails closed: only True lets a caller in."""
    allows_at: Callable[[str, Mapping[str, Any], Principal | None], Any] | None = None
    """One that wants to know the URI and the arguments of its template, too; `at` gives it these."""


Rights = tuple[Right, ...]
"""All conditions of one component; each has to be met."""
NOBODY: Rights = (Right(allows=lambda principal: False),)
"""For what may not be used at all."""


def at(rights: Rights, uri: str, arguments: Mapping[str, Any]) -> Rights:
    """The conditions of using a resource at ``uri``; ``arguments`` are those of its template."""
    return tuple(
        right
        if right.allows_at is None
        else replace(right, allows=partial(right.allows_at, uri, dict(arguments)), allows_at=None)
        for right in rights
    )


def implies(rights: Rights, others: Rights) -> bool:
    """Whether all who have these rights have the others, too."""
    scopes = frozenset[str]().union(*(each.scopes for each in rights))
    asked = (None, *(each.allows for each in rights))
    return all(each.scopes <= scopes and each.allows in asked for each in others)


class MissingScope(ProtocolError):
    """The caller would be let in with further scopes. Over HTTP: 403 and a challenge that names them all."""

    def __init__(self, scopes: frozenset[str]) -> None:
        words = sorted(scopes)
        text = f"this needs the scopes: {' '.join(words)}"
        super().__init__("insufficient_permissions", text, data={"requiredScopes": words})
        self.scopes = scopes
        """All that the operation needs, those the caller has included."""


def needed(rights: Sequence[Right]) -> frozenset[str]:
    """All scopes that ``rights`` ask for."""
    return frozenset[str]().union(*(right.scopes for right in rights))


def denied(rights: Sequence[Right], principal: Principal | None) -> bool:
    """Whether the author's own functions keep ``principal`` away: the component is to be unknown."""
    return any(right.allows is not None and right.allows(principal) is not True for right in rights)


def visible(rights: Sequence[Right], principal: Principal | None) -> bool:
    """Whether ``principal`` may use, and therefore see, what has these rights."""
    held = frozenset[str]() if principal is None else principal.scopes
    return needed(rights) <= held and not denied(rights, principal)


def unknown(rights: Sequence[Right], principal: Principal | None) -> bool:
    """Whether the component is to be unknown to ``principal``, who wants to use it.

    Raises:
        MissingScope: it is known, but needs scopes that the caller does not have.
    """
    if visible(rights, principal):
        return False
    if denied(rights, principal):
        return True
    raise MissingScope(needed(rights))
