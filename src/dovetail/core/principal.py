"""Who is calling, as far as somebody has proved it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import force_setattr


class Principal(Struct, frozen=True, eq=False):
    """Whoever a transport has authenticated: ``ctx.principal``.

    Two principals are the same when subject and issuer are; what they may do (``scopes``) and what else was said about
    them (``claims``) belongs to the token of the moment. One without an issuer equals the plain text of its subject.
    """

    subject: str
    issuer: str | None = None
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = {}
    client_id: str | None = None

    def __post_init__(self) -> None:
        if type(self.scopes) is frozenset:
            return
        given: Any = self.scopes
        scopes: list[Any] | None = None
        if isinstance(given, Iterable) and not isinstance(given, str | bytes):
            scopes = list(cast("Iterable[Any]", given))
        if scopes is None or not all(isinstance(scope, str) for scope in scopes):
            raise TypeError(f"scopes of a principal are strings, such as ['read']: not {given!r}")
        force_setattr(self, "scopes", frozenset(scopes))

    @property
    def key(self) -> str:
        """What sessions, tasks and sealed tokens are bound to."""
        return self.subject if self.issuer is None else f"{self.issuer}\0{self.subject}"

    @property
    def expires(self) -> float | None:
        """When what proved it ends (the claim ``exp``); None where nothing was said."""
        moment = self.claims.get("exp")
        return moment if isinstance(moment, int | float) and not isinstance(moment, bool) else None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Principal):
            return self.subject == other.subject and self.issuer == other.issuer
        return isinstance(other, str) and self.key == other

    def __ne__(self, other: object) -> bool:
        return not self == other  # a Struct has an opinion of its own

    def __hash__(self) -> int:
        return hash(self.subject)

    def __str__(self) -> str:
        return self.subject

    def __repr__(self) -> str:
        # Claims are somebody's personal data: they do not belong into logs.
        return f"Principal({self.subject!r}, issuer={self.issuer!r}, scopes={sorted(self.scopes)})"


def key_of(principal: Principal | None) -> str | None:
    """What belongs to ``principal`` is bound to this; None is nobody's."""
    return None if principal is None else principal.key


def as_principal(given: Principal | str | None) -> Principal | None:
    """What surroundings of their own say about the caller: a principal, or the name of one."""
    return Principal(given) if isinstance(given, str) else given
