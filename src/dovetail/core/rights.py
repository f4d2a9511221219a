"""Authorization: whether a principal may see and use a component. One decision for lists and for calls.

A component that a caller may not use is not listed. Missing scopes can be requested, so a call without them
fails with an error that names them. If an authorization function denies access, the component is reported as
unknown.
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
    """One condition for using a component."""

    scopes: frozenset[str] = frozenset()
    """All of these scopes are required."""
    allows: Callable[[Principal | None], Any] | None = None
    """Authorization function. It fails closed: only True grants access."""
    allows_at: Callable[[str, Mapping[str, Any], Principal | None], Any] | None = None
    """Authorization function that also gets the URI and the template arguments; `at` provides them."""
    scopes_at: Callable[[str, Mapping[str, Any]], frozenset[str] | None] | None = None
    """Returns the required scopes for a URI and its template arguments; None denies access."""

    @property
    def by_address(self) -> bool:
        """Whether this condition depends on the URI."""
        return self.allows_at is not None or self.scopes_at is not None


Rights = tuple[Right, ...]
"""All conditions of one component. Every one must be met."""
DENY_ALL: Rights = (Right(allows=lambda principal: False),)
"""Denies access to everyone."""


def at(rights: Rights, uri: str, arguments: Mapping[str, Any]) -> Rights:
    """Bind the conditions of a resource to ``uri`` and to the ``arguments`` of its template."""
    if not any(right.by_address for right in rights):
        return rights
    bound: list[Right] = []
    for right in rights:
        one = right
        if one.scopes_at is not None:
            scopes = one.scopes_at(uri, dict(arguments))
            if scopes is None:
                return DENY_ALL
            one = replace(one, scopes=one.scopes | scopes, scopes_at=None)
        if one.allows_at is not None:
            one = replace(one, allows=partial(one.allows_at, uri, dict(arguments)), allows_at=None)
        bound.append(one)
    return tuple(bound)


def implies(rights: Rights, others: Rights) -> bool:
    """Whether every principal that meets ``rights`` also meets ``others``."""
    scopes = frozenset[str]().union(*(each.scopes for each in rights))
    asked = (None, *(each.allows for each in rights))
    return all(each.scopes <= scopes and each.allows in asked for each in others)


class MissingScope(ProtocolError):
    """The caller lacks scopes. Over HTTP: status 403 with a challenge that names them."""

    def __init__(self, scopes: frozenset[str]) -> None:
        words = sorted(scopes)
        text = f"missing scope; required: {' '.join(words)}"
        super().__init__("insufficient_permissions", text, data={"requiredScopes": words})
        self.scopes = scopes
        """All scopes that the operation requires, including those that the caller has."""


def needed(rights: Sequence[Right]) -> frozenset[str]:
    """Return all scopes that ``rights`` require."""
    return frozenset[str]().union(*(right.scopes for right in rights))


def denied(rights: Sequence[Right], principal: Principal | None) -> bool:
    """Whether an authorization function denies access to ``principal``.

    The component is then reported as unknown.
    """
    return any(right.allows is not None and right.allows(principal) is not True for right in rights)


def visible(rights: Sequence[Right], principal: Principal | None) -> bool:
    """Whether ``principal`` may use the component, and therefore see it in lists."""
    held = frozenset[str]() if principal is None else principal.scopes
    return needed(rights) <= held and not denied(rights, principal)


def hidden(rights: Sequence[Right], principal: Principal | None) -> bool:
    """Whether a call by ``principal`` must treat the component as unknown.

    Raises:
        MissingScope: the component is known, but requires scopes that the caller does not have.
    """
    if visible(rights, principal):
        return False
    if denied(rights, principal):
        return True
    raise MissingScope(needed(rights))
