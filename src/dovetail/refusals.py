"""What an error code or kind means, its cause, its fix, and whether the same request may succeed later.

```python
for found in refusals.explain(1003):
    print(found.code, found.meaning, found.cause, found.fix, found.retryable)
```

``dovetail explain CODE`` and ``dovetail explain KIND`` print it. Names and codes are those of `dovetail.kinds`, causes
and fixes those of `dovetail.error_causes`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from .error_causes import CAUSES
from .kinds import KINDS, LATER, MESSAGE_REFUSALS, REFUSAL_CODES, RESERVED_REFUSALS, Kind, refusal_kind

__all__ = ["REFUSALS", "Explanation", "explain", "explain_kind"]


class Explanation(Struct, frozen=True):
    """One meaning of a code."""

    code: int | None
    """None: the error occurs inside the program and is not sent."""
    kind: str
    """The word that is the same on every revision and in every dialect."""
    meaning: str
    """The message of the error, unless the server sends a more exact one."""
    cause: str
    """Why it occurs."""
    fix: str
    """What to do about it."""
    retryable: bool
    """The same request may succeed later."""
    where: str
    """Who uses this number: "refusal", "official", "erlmcp", "mcp_client", or "local" for errors without one."""


_DETAILS: Final = {1086: "circuit_open"} | {code: kind for kind, code in MESSAGE_REFUSALS.items()}
"""Reserved numbers with a separate kind, for errors that have another number on the official wire."""
_RETRYABLE: Final = frozenset(
    {"refused_quota", "refused_server_state", "refused_health", "tool_timeout", "request_timeout"}
)
_RESERVED: Final = frozenset(name for _, name in RESERVED_REFUSALS)
_GENERAL: Final = frozenset(
    {"parse_error", "invalid_request", "method_not_found", "invalid_params", "internal_error"}
)


def _retryable(kind: str) -> bool:
    row = KINDS.get(kind)
    return kind in _RETRYABLE or (row is not None and row.status in LATER)


def _explained(code: int | None, kind: str, where: str) -> Explanation:
    row = KINDS.get(kind)
    meaning = kind.replace("_", " ").capitalize() if row is None else row.message
    return Explanation(code, kind, meaning, *CAUSES[kind], _retryable(kind), where)


REFUSALS: Final[tuple[Explanation, ...]] = tuple(
    _explained(code, _DETAILS.get(code) or refusal_kind(code), "refusal") for code in REFUSAL_CODES
)
"""Every refusal, 1001 to 1089."""


def explain(code: int) -> list[Explanation]:
    """Every meaning of ``code``: a number may mean one thing officially and another in a dialect."""
    if code in REFUSAL_CODES:
        return [REFUSALS[code - REFUSAL_CODES.start]]
    found = [
        _explained(code, row.name, where)
        for where in ("official", "erlmcp", "mcp_client")
        for row in KINDS.values()
        if code in _codes(row, where)
    ]
    # The general meaning of a number comes before the kinds that share it.
    return sorted(found, key=lambda one: one.where != "official" or one.kind not in _GENERAL)


def explain_kind(kind: str) -> list[Explanation]:
    """The meaning of ``kind``, once for each code that it has; empty if the kind is unknown."""
    if kind in _RESERVED:
        return [one for one in REFUSALS if one.kind == kind]
    row = KINDS.get(kind)
    if row is None:
        return []
    found = {
        (code, "refusal" if code in REFUSAL_CODES else where): None
        for where in ("official", "erlmcp", "mcp_client")
        for code in _codes(row, where)
    }
    return [_explained(code, kind, where) for code, where in found] or [_explained(None, kind, "local")]


def _codes(row: Kind, where: str) -> tuple[int, ...]:
    """The codes with which ``row`` is sent there. Errors that stay inside the program have no official one."""
    official = () if row.delivery in ("local", "registration", "drop") else (row.modern, row.legacy)
    if where == "official":
        return official
    code = row.erlmcp if where == "erlmcp" else row.elixir
    return () if code is None or code in official else (code,)
