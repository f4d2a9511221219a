"""Negotiation of era and revision: decisions without I/O.

An attempt calls `first_step`, executes the step, and passes the outcome to `after_probe` or
`after_initialize`, until a `Step` says that it is settled or failed. Each row of the table "finding the
server's era" in lifecycle.md is one branch. The I/O is in `client.connecting.connect`.

Three rules apply. Network errors prove nothing. No single error code proves a legacy server; only the three
modern codes prove anything. Every step is taken at most once, so negotiation always ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from msgspec import Struct

from ...wire.revisions import BY_NAME, REVISIONS, newest

VERSIONS_READ: Final = 64
"""Versions that are read from a server's list of supported ones."""

HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
_STAY_MODERN = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY})

# Statuses that mean "not now": repeat the same probe later.
_TRANSIENT = frozenset({408, 425, 429})
# After these statuses, the same URL may be the HTTP+SSE endpoint of 2024-11-05.
_TRY_SSE = frozenset({400, 404, 405, 406, 415, 422})


class NegotiationPolicy(Struct, frozen=True):
    """The allowed revisions, newest first."""

    modern: tuple[str, ...]
    legacy: tuple[str, ...]
    pinned: bool = False

    @classmethod
    def of(cls, revision: str) -> NegotiationPolicy:
        """Parse the ``revision=`` option: "auto", "modern", "legacy", or one revision.

        Raises:
            ValueError: the revision is unknown.
        """
        if revision in ("auto", "modern", "legacy"):
            modern = tuple(r.name for r in reversed(REVISIONS) if r.modern)
            legacy = tuple(r.name for r in reversed(REVISIONS) if not r.modern)
            return cls(() if revision == "legacy" else modern, () if revision == "modern" else legacy)
        row = BY_NAME.get(revision)
        if row is None:
            known = ", ".join(BY_NAME)
            raise ValueError(
                f'revision must be "auto", "modern", "legacy" or one of {known}; not {revision!r}'
            )
        return cls((revision,), (), pinned=True) if row.modern else cls((), (revision,), pinned=True)

    @property
    def proposal(self) -> str:
        """The version that `initialize` proposes: always a legacy one."""
        return self.legacy[0] if self.legacy else newest(modern=False).name


class Outcome(Struct, frozen=True):
    """The outcome of a probe or of `initialize`.

    ``kind`` is "result" (with ``versions``, None if unreadable), "error" (JSON-RPC: ``code``, ``supported``),
    "status" (HTTP without JSON-RPC), "garbage" (not a message), "silent", "gone" (the server disconnected) or
    "unreachable" (it did not receive the request).
    """

    kind: str
    versions: tuple[str, ...] | None = None
    code: int = 0
    supported: tuple[str, ...] | None = None
    status: int = 200
    detail: str = ""


class Step(Struct, frozen=True):
    """The next step: "probe", "initialize", "sse", "modern", "legacy", "retry" or "fail".

    "retry" is an inconclusive failure: raise it, and try the same again later.
    """

    action: str
    revision: str = ""
    reason: str = ""
    respawn: bool = False
    """Whether to start another process first, because the previous one has ended or is unresponsive."""


def first_step(policy: NegotiationPolicy, remembered: str | None = None) -> Step:
    """Return the first step; ``remembered`` is the era of an earlier connection."""
    if not policy.modern or (remembered == "legacy" and policy.legacy):
        return Step("initialize", policy.proposal)
    return Step("probe", policy.modern[0])


def choose(offered: Sequence[str], wanted: Sequence[str]) -> str | None:
    """Return the newest version of ``wanted`` (newest first) that is offered."""
    return next((version for version in wanted if version in offered), None)


def after_probe(policy: NegotiationPolicy, outcome: Outcome, tried: Sequence[str], *, http: bool) -> Step:
    """Decide after `server/discover` with the last version of ``tried``."""
    match outcome.kind:
        case "result":
            return _after_discovery(policy, outcome.versions)
        case "error" if outcome.code == UNSUPPORTED_VERSION and outcome.supported is not None:
            return _after_unsupported(policy, outcome.supported, tried)
        case "error" if outcome.code in _STAY_MODERN and http:
            return Step(
                "fail", reason=f"the server refused server/discover with {outcome.code}: {outcome.detail}"
            )
        case "status" if outcome.status in _TRANSIENT:
            return Step("retry", reason=f"HTTP {outcome.status}: {outcome.detail}")
        case "unreachable":
            return Step("retry", reason=outcome.detail)
        case _:
            return _initialize(policy, outcome.detail or outcome.kind, respawn=outcome.kind == "gone")


def after_initialize(
    policy: NegotiationPolicy, outcome: Outcome, *, http: bool, reprobed: bool = False
) -> Step:
    """Decide after `initialize`. ``reprobed``: it has already led back to a probe once."""
    match outcome.kind:
        case "result":
            version = outcome.versions[0] if outcome.versions else ""
            if version in policy.legacy:
                return Step("legacy", version)
            wanted = ", ".join(policy.legacy)
            return Step(
                "fail", reason=f"the server answered with revision {version!r}; the client supports {wanted}"
            )
        case "error" if outcome.code == UNSUPPORTED_VERSION and not reprobed:
            # A slow server that answers the probe only now, or a wrongly cached modern-only server.
            version = choose(outcome.supported or policy.modern, policy.modern)
            if version is not None:
                return Step("probe", version)
            return Step("fail", reason=_no_overlap(outcome.supported or (), policy))
        case "status" | "garbage" if http and outcome.status in _TRY_SSE:
            return Step("sse")
        case "error" if http and outcome.status in _TRY_SSE and outcome.status != 400:
            return Step("sse")
        case "status" if outcome.status in _TRANSIENT or outcome.status >= 500:
            return Step("retry", reason=f"HTTP {outcome.status}: {outcome.detail}")
        case "gone" | "silent" | "unreachable":
            return Step("retry", reason=outcome.detail or outcome.kind, respawn=True)
        case _:
            return Step("fail", reason=outcome.detail or f"initialize was answered with {outcome.kind}")


def _after_discovery(policy: NegotiationPolicy, versions: tuple[str, ...] | None) -> Step:
    if versions is None:
        return _initialize(policy, "server/discover was answered with something else")
    version = choose(versions, policy.modern)
    if version is not None:
        return Step("modern", version)
    legacy = choose(versions, policy.legacy)
    if legacy is not None:
        return Step("initialize", legacy)
    return Step("fail", reason=_no_overlap(versions, policy))


def _after_unsupported(policy: NegotiationPolicy, supported: tuple[str, ...], tried: Sequence[str]) -> Step:
    version = choose([v for v in supported if v not in tried], policy.modern)
    if version is not None:
        return Step("probe", version)
    # The same version may be offered again after a refusal: try it once more.
    again = choose(supported, policy.modern)
    if again is not None and len(tried) < 2:
        return Step("probe", again)
    legacy = choose(supported, policy.legacy)
    if legacy is not None:
        return Step("initialize", legacy)
    return Step("fail", reason=_no_overlap(supported, policy))


def _initialize(policy: NegotiationPolicy, reason: str, *, respawn: bool = False) -> Step:
    if not policy.legacy:
        return Step("fail", reason=f"the server does not support {', '.join(policy.modern)}: {reason}")
    return Step("initialize", policy.proposal, respawn=respawn)


def _no_overlap(offered: Sequence[str], policy: NegotiationPolicy) -> str:
    ours = ", ".join((*policy.modern, *policy.legacy))
    return (
        f"no common revision: the server supports {', '.join(offered) or 'none'}; the client supports {ours}"
    )


def read_supported(data: Any) -> tuple[str, ...] | None:
    """Return the `supported` list in the data of an UnsupportedProtocolVersion error."""
    supported = cast("dict[str, Any]", data).get("supported") if isinstance(data, dict) else None
    if not isinstance(supported, list):
        return None
    return tuple(v for v in cast("list[Any]", supported)[:VERSIONS_READ] if isinstance(v, str))
