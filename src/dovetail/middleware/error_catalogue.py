"""What a code means, what helps, and whether to try again: for every number that may stand in an error.

```python
for found in refusals.explain(1003):
    print(found.code, found.meaning, found.hint, found.retryable)
```

The names and numbers are those of `dovetail.kinds`; here is what people want to know beside them. The command
``dovetail explain CODE`` prints it.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ..kinds import KINDS, LATER, MESSAGE_REFUSALS, REFUSAL_CODES, refusal_kind

__all__ = ["REFUSALS", "Explanation", "explain"]


class Explanation(Struct, frozen=True):
    """One meaning of a code."""

    code: int
    kind: str
    """The word that is the same on every revision and in every dialect."""
    meaning: str
    hint: str
    """What to do about it."""
    retryable: bool
    """The same request may succeed later."""
    where: str
    """Who says this number so: "refusal", "official", "erlmcp" or "mcp_client"."""


_HINTS: Final = {
    "content_policy": "Change what the request contains; the same content is refused again.",
    "safety": "Change what the request asks for; it is refused for safety.",
    "rate_limited": "Wait for retryAfterMs, then send again, and more slowly.",
    "resource_constraints": "Too much is going on at once: wait for retryAfterMs, or ask for less.",
    "permission_denied": "Sign in as somebody who may, or ask for the missing permission.",
    "invalid_input": "Correct the input; the message says what is wrong with it.",
    "unsupported_operation": "This server does not do it in this way; look at its capabilities.",
    "temporarily_unavailable": "Wait for retryAfterMs, then send again.",
    "dependency_failed": "Something this server needs is away: wait for retryAfterMs, then send again.",
    "custom": "The server's own reason: read the message and the hint that came with it.",
    "quota_exceeded": "So many requests were refused that all are for a while: wait for retryAfterMs.",
    "too_many_connections": "Close connections and streams that are not used, then open this one again.",
    "peer_too_slow": "Read what the server sends faster, or ask for less of it.",
    "overloaded": "The server's processor is busy: wait for retryAfterMs, then send again.",
    "storage_full": "The server's disk or store is full: tell its operator.",
    "circuit_open": "It has failed too often and rests: wait for retryAfterMs, then send again.",
    "unhealthy": "A component of the server is not healthy; /readyz tells its operator which.",
    "memory_exhausted": "The server has little memory left: wait for retryAfterMs, or ask for less.",
    "tool_disabled": "The operator has switched this tool off; use another one.",
    "tool_not_allowed": "The operator's policy does not allow this tool, or these arguments, to you.",
    "tool_dependency_failed": "Something this tool needs is away: wait for retryAfterMs, then call it again.",
    "too_many_tools": "The tool is running as often as it may: wait for retryAfterMs, then call it again.",
    "tool_timeout": "The tool took too long: ask for less, or raise its timeout.",
    "tool_result_too_large": "Ask for less, or page by page.",
    "message_too_large": "Send less in one message; maxSize says how much is taken.",
    "invalid_encoding": "Send UTF-8, without surrogates.",
    "refused_authentication": "Sign in again.",
    "refused_parameters": "Correct the parameters; the message says what is wrong with them.",
    "refused_address": "Use a path or URI inside what the server serves.",
    "refused_entity": "Look at the lists: there is no such thing, or there is one already.",
    "refused_quota": "Wait for retryAfterMs, then send again, and less.",
    "refused_message": "Correct the message: its form, size, encoding or time.",
    "refused_server_state": "The server cannot do it now: wait for retryAfterMs, then send again.",
    "refused_health": "The server protects itself: wait for retryAfterMs, then send again.",
    "invalid_params": "Correct the params; data says what is wrong with them.",
    "method_not_found": "The server has no such method on this revision; look at its capabilities.",
    "internal_error": "The server failed; its operator finds the incident number in the log.",
    "parse_error": "What was sent is not JSON.",
    "invalid_request": "What was sent is no JSON-RPC 2.0 request of this revision.",
}
"""What helps, by kind; of all others the message says enough."""
_DETAILS: Final = {1086: "circuit_open"} | {code: kind for kind, code in MESSAGE_REFUSALS.items()}
"""Reserved numbers with a name of their own that another number carries on the official wire."""
_RETRYABLE: Final = frozenset({"refused_quota", "refused_server_state", "refused_health", "tool_timeout"})


def _retryable(kind: str) -> bool:
    row = KINDS.get(kind)
    return kind in _RETRYABLE or (row is not None and row.status in LATER)


def _explained(code: int, kind: str, where: str) -> Explanation:
    row = KINDS.get(kind)
    meaning = kind.replace("_", " ").capitalize() if row is None else row.message
    hint = _HINTS.get(kind, "Read the message: it says what is wrong.")
    return Explanation(code, kind, meaning, hint, _retryable(kind), where)


REFUSALS: Final[tuple[Explanation, ...]] = tuple(
    _explained(code, _DETAILS.get(code) or refusal_kind(code), "refusal") for code in REFUSAL_CODES
)
"""Every refusal there is, 1001 to 1089."""


def explain(code: int) -> list[Explanation]:
    """All that ``code`` may mean: a number may mean one thing officially and another to a reference system."""
    if code in REFUSAL_CODES:
        return [REFUSALS[code - REFUSAL_CODES.start]]
    found = [
        _explained(code, row.name, where)
        for where in ("official", "erlmcp", "mcp_client")
        for row in KINDS.values()
        if code in {"official": (row.legacy, row.modern), "erlmcp": (row.erlmcp,)}.get(where, (row.elixir,))
    ]
    # The general meaning of a number comes before the kinds that only borrow it.
    return sorted(found, key=lambda one: one.where != "official" or one.kind not in _GENERAL)


_GENERAL: Final = frozenset(
    {"parse_error", "invalid_request", "method_not_found", "invalid_params", "internal_error"}
)
