"""Finding the era and revision of a server: decisions without I/O.

A connection attempt asks `first_step`, does what it says, and hands what came back to `after_probe` or
`after_initialize`, until a `Step` says that it is settled or that it failed. Each row of lifecycle.md's table
"finding the server's era" is one branch here; the I/O around it lives in `client.connecting`.

Three rules stand above the table. Network errors are never a verdict. No single error code proves a legacy server;
only the three modern ones prove anything. Every step is taken at most once, so the ladder always ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from msgspec import Struct

from ...wire.revisions import BY_NAME, REVISIONS, newest

VERSIONS_READ: Final = 64
"""Versions that are read of what a server says it supports: those we might know are few."""

HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
_STAY_MODERN = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY})

# Statuses that say "not now", never "not this": repeating the same probe later is the only answer.
_TRANSIENT = frozenset({408, 425, 429})
# An `initialize` refused with one of these may still be the 2024-11-05 pair of endpoints behind the same URL.
_TRY_SSE = frozenset({400, 404, 405, 406, 415, 422})


class NegotiationPolicy(Struct, frozen=True):
    """Which revisions the caller allows, newest first."""

    modern: tuple[str, ...]
    legacy: tuple[str, ...]
    pinned: bool = False

    @classmethod
    def of(cls, revision: str) -> NegotiationPolicy:
        """Read the ``revision=`` option: "auto", "modern", "legacy", or one revision.

        Raises:
            ValueError: no such revision.
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
        """The version that `initialize` proposes: never a modern one."""
        return self.legacy[0] if self.legacy else newest(modern=False).name


class Outcome(Struct, frozen=True):
    """What came back from a probe or from `initialize`.

    ``kind`` is "result" (with ``versions``, None when they could not be read), "error" (JSON-RPC: ``code``,
    ``supported``), "status" (HTTP without JSON-RPC), "garbage" (an answer that is no message), "silent", "gone" (the
    server hung up on the question) or "unreachable" (it was never asked).
    """

    kind: str
    versions: tuple[str, ...] | None = None
    code: int = 0
    supported: tuple[str, ...] | None = None
    status: int = 200
    detail: str = ""


class Step(Struct, frozen=True):
    """What to do next: "probe", "initialize", "sse", "modern", "legacy", "retry" or "fail".

    "retry" is a failure without a verdict: raise it, and try the same again later.
    """

    action: str
    revision: str = ""
    reason: str = ""
    respawn: bool = False
    """The process that was asked is gone or lost: start another one before this step."""


def first_step(policy: NegotiationPolicy, remembered: str | None = None) -> Step:
    """The step to begin with; ``remembered`` is the era an earlier connection found."""
    if not policy.modern or (remembered == "legacy" and policy.legacy):
        return Step("initialize", policy.proposal)
    return Step("probe", policy.modern[0])


def choose(offered: Sequence[str], wanted: Sequence[str]) -> str | None:
    """The newest version of ``wanted`` (newest first) that is offered."""
    return next((version for version in wanted if version in offered), None)


def after_probe(policy: NegotiationPolicy, outcome: Outcome, tried: Sequence[str], *, http: bool) -> Step:
    """Decide after `server/discover` was sent with the last version of ``tried``."""
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
    """Decide after `initialize` came back. ``reprobed``: it has led back to a probe once already."""
    match outcome.kind:
        case "result":
            version = outcome.versions[0] if outcome.versions else ""
            if version in policy.legacy:
                return Step("legacy", version)
            wanted = ", ".join(policy.legacy)
            return Step("fail", reason=f"the server answered with revision {version!r}; we speak {wanted}")
        case "error" if outcome.code == UNSUPPORTED_VERSION and not reprobed:
            # A slow starter that answers the probe only now, or a modern-only server we remembered wrongly.
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
    # The same version may be offered again after being refused: a server that says so is asked once more.
    again = choose(supported, policy.modern)
    if again is not None and len(tried) < 2:
        return Step("probe", again)
    legacy = choose(supported, policy.legacy)
    if legacy is not None:
        return Step("initialize", legacy)
    return Step("fail", reason=_no_overlap(supported, policy))


def _initialize(policy: NegotiationPolicy, reason: str, *, respawn: bool = False) -> Step:
    if not policy.legacy:
        return Step("fail", reason=f"the server does not speak {', '.join(policy.modern)}: {reason}")
    return Step("initialize", policy.proposal, respawn=respawn)


def _no_overlap(offered: Sequence[str], policy: NegotiationPolicy) -> str:
    ours = ", ".join((*policy.modern, *policy.legacy))
    return f"no common revision: the server speaks {', '.join(offered) or 'none it names'}; we speak {ours}"


def read_supported(data: Any) -> tuple[str, ...] | None:
    """The `supported` list in the data of an UnsupportedProtocolVersion error."""
    supported = cast("dict[str, Any]", data).get("supported") if isinstance(data, dict) else None
    if not isinstance(supported, list):
        return None
    return tuple(v for v in cast("list[Any]", supported)[:VERSIONS_READ] if isinstance(v, str))
