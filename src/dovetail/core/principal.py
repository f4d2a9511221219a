"""The authenticated caller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import force_setattr

_TEXT: Final = frozenset({str})


class Principal(Struct, frozen=True, eq=False):
    """An authenticated caller: ``ctx.principal``.

    Two principals are equal if subject and issuer are equal. ``scopes`` and ``claims`` belong to the current
    token. A principal without an issuer equals the string of its subject.
    """

    subject: str
    issuer: str | None = None
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = {}
    client_id: str | None = None

    def __post_init__(self) -> None:
        for name in ("subject", "issuer", "client_id"):
            value: object = getattr(self, name)
            if not isinstance(value, str) and (value is not None or name == "subject"):
                raise TypeError(f"{name} of a principal must be a string, not {value!r}")
        if not isinstance(cast("Any", self.claims), Mapping):
            raise TypeError(f"claims of a principal must be a mapping, not {self.claims!r}")
        if type(self.scopes) is frozenset and _TEXT.issuperset(map(type, self.scopes)):
            return
        given: Any = self.scopes
        scopes: list[Any] | None = None
        if isinstance(given, Iterable) and not isinstance(given, str | bytes):
            scopes = list(cast("Iterable[Any]", given))
        if scopes is None or not all(isinstance(scope, str) for scope in scopes):
            raise TypeError(
                f"scopes of a principal must be an iterable of strings such as ['read'], not {given!r}"
            )
        force_setattr(self, "scopes", frozenset(scopes))

    @property
    def key(self) -> str:
        """The key that sessions, tasks and sealed tokens are bound to."""
        return self.subject if self.issuer is None else f"{self.issuer}\0{self.subject}"

    @property
    def expires(self) -> float | None:
        """The expiry time of the token (claim ``exp``), or None."""
        moment = self.claims.get("exp")
        return moment if isinstance(moment, int | float) and not isinstance(moment, bool) else None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Principal):
            return self.subject == other.subject and self.issuer == other.issuer
        return isinstance(other, str) and self.key == other

    def __ne__(self, other: object) -> bool:
        return not self == other  # a Struct defines its own __ne__

    def __hash__(self) -> int:
        return hash(self.subject)

    def __str__(self) -> str:
        return self.subject

    def __repr__(self) -> str:
        # Claims are personal data. They must not appear in logs.
        return f"Principal({self.subject!r}, issuer={self.issuer!r}, scopes={sorted(self.scopes)})"


def key_of(principal: Principal | None) -> str | None:
    """Return the ownership key of ``principal``. None means no owner."""
    return None if principal is None else principal.key


def as_principal(given: Principal | str | None) -> Principal | None:
    """Convert what a host application provides: a principal, or the name of one."""
    return Principal(given) if isinstance(given, str) else given
