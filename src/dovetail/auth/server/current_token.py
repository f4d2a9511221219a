"""The token by which a caller was let in: for whoever exchanges it while its request is served, and for nobody else."""

from __future__ import annotations

from contextvars import ContextVar

from ...core.principal import Principal

proof: ContextVar[tuple[Principal, str] | None] = ContextVar("dovetail_proof", default=None)
"""Who was let in here, and the bearer token that said so. Neither kept nor shown."""


def proof_of(principal: Principal | None) -> str | None:
    """The verified token by which ``principal`` was let in here; None where something else said who it is."""
    found = proof.get()
    return found[1] if found is not None and found[0] is principal else None
