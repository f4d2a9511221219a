"""The verified token of the current request, for token exchange."""

from __future__ import annotations

from contextvars import ContextVar

from ...core.principal import Principal

proof: ContextVar[tuple[Principal, str] | None] = ContextVar("dovetail_proof", default=None)
"""The principal and its bearer token. Not stored or shown."""


def proof_of(principal: Principal | None) -> str | None:
    """Return the verified token of ``principal``, or None if it was authenticated otherwise."""
    found = proof.get()
    return found[1] if found is not None and found[0] is principal else None
