"""The decision tables of the negotiation, row by row."""

from __future__ import annotations

import pytest

from dovetail.client.connecting.negotiate import (
    NegotiationPolicy,
    Outcome,
    after_initialize,
    after_probe,
    choose,
    first_step,
    read_supported,
)
from dovetail.client.connecting.server_cache import CachedServer, ServerCache

AUTO = NegotiationPolicy.of("auto")
R5, R4, R3 = "2026-07-28", "2025-11-25", "2025-06-18"


def test_the_first_step_follows_the_policy_and_what_is_remembered() -> None:
    assert (first_step(AUTO).action, first_step(AUTO).revision) == ("probe", R5)
    assert first_step(AUTO, "legacy").action == "initialize"
    assert first_step(AUTO, "modern").action == "probe"
    assert first_step(NegotiationPolicy.of("legacy")).revision == R4
    assert first_step(NegotiationPolicy.of("2024-11-05")).revision == "2024-11-05"
    assert first_step(NegotiationPolicy.of("modern"), "legacy").action == "probe"


def test_an_unknown_revision_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="2024-11-05, 2025-03-26"):
        NegotiationPolicy.of("2023-01-01")


PROBES = [
    (Outcome("result", (R5, R4)), "modern"),
    (Outcome("result", (R4, R3)), "initialize"),
    (Outcome("result", None), "initialize"),
    (Outcome("result", ("2030-01-01",)), "fail"),
    (Outcome("error", code=-32022, supported=(R5,)), "probe"),
    (Outcome("error", code=-32022, supported=(R3,)), "initialize"),
    (Outcome("error", code=-32022, supported=("2030-01-01",)), "fail"),
    (Outcome("error", code=-32022, supported=None), "initialize"),
    (Outcome("error", code=-32601), "initialize"),
    (Outcome("error", code=-32602), "initialize"),
    (Outcome("error", code=-32603), "initialize"),
    (Outcome("silent"), "initialize"),
    (Outcome("garbage"), "initialize"),
    (Outcome("gone"), "initialize"),
    (Outcome("unreachable"), "retry"),
]


@pytest.mark.parametrize("http", [False, True])
@pytest.mark.parametrize(("outcome", "action"), PROBES)
def test_after_the_probe(outcome: Outcome, action: str, http: bool) -> None:
    assert after_probe(AUTO, outcome, [R5], http=http).action == action


@pytest.mark.parametrize(
    ("status", "action"),
    [
        (400, "initialize"),
        (401, "initialize"),
        (404, "initialize"),
        (405, "initialize"),
        (502, "initialize"),
        (429, "retry"),
        (408, "retry"),
    ],
)
def test_after_a_status(status: int, action: str) -> None:
    assert after_probe(AUTO, Outcome("status", status=status), [R5], http=True).action == action


@pytest.mark.parametrize("code", [-32020, -32021])
def test_a_modern_error_over_http_stays_modern(code: int) -> None:
    assert after_probe(AUTO, Outcome("error", code=code, status=400), [R5], http=True).action == "fail"


def test_a_version_that_was_refused_twice_is_not_asked_for_ever() -> None:
    refused = Outcome("error", code=-32022, supported=(R5,))
    assert after_probe(AUTO, refused, [R5], http=True).action == "probe"
    assert after_probe(AUTO, refused, [R5, R5], http=True).action == "fail"


def test_a_process_that_is_gone_is_replaced() -> None:
    assert after_probe(AUTO, Outcome("gone"), [R5], http=False).respawn
    assert after_initialize(AUTO, Outcome("silent"), http=False).respawn


@pytest.mark.parametrize(
    "outcome", [Outcome("silent"), Outcome("error", code=-32601), Outcome("result", (R4,))]
)
def test_modern_only_never_falls_back(outcome: Outcome) -> None:
    assert after_probe(NegotiationPolicy.of("modern"), outcome, [R5], http=False).action == "fail"


@pytest.mark.parametrize(
    ("outcome", "action"),
    [
        (Outcome("result", (R3,)), "legacy"),
        (Outcome("result", ("2023-01-01",)), "fail"),
        (Outcome("error", code=-32022, supported=(R5,)), "probe"),
        (Outcome("error", code=-32022, supported=("2030-01-01",)), "fail"),
        (Outcome("status", status=404), "sse"),
        (Outcome("status", status=405), "sse"),
        (Outcome("status", status=400), "sse"),
        (Outcome("status", status=503), "retry"),
        (Outcome("status", status=401), "fail"),
        (Outcome("error", code=-32603, status=200), "fail"),
        (Outcome("gone"), "retry"),
    ],
)
def test_after_initialize_over_http(outcome: Outcome, action: str) -> None:
    assert after_initialize(AUTO, outcome, http=True).action == action


def test_a_slow_starter_is_probed_again_only_once() -> None:
    outcome = Outcome("error", code=-32022, supported=(R5,))
    assert after_initialize(AUTO, outcome, http=False).action == "probe"
    assert after_initialize(AUTO, outcome, http=False, reprobed=True).action == "fail"


def test_a_pinned_version_accepts_no_other() -> None:
    assert after_initialize(NegotiationPolicy.of(R3), Outcome("result", (R4,)), http=False).action == "fail"


def test_the_newest_common_version_wins() -> None:
    assert choose([R3, R4], AUTO.legacy) == R4
    assert choose([], AUTO.legacy) is None


def test_a_hostile_list_of_versions_is_cut_and_cleaned() -> None:
    assert read_supported({"supported": [R5, 5, None, {}]}) == (R5,)
    assert len(read_supported({"supported": ["x"] * 10_000}) or ()) == 64
    assert read_supported({"supported": "all"}) is None
    assert read_supported([]) is None


def test_the_server_cache_is_bounded() -> None:
    known = ServerCache(limit=2)
    for name in "abc":
        known.remember(name, CachedServer("legacy", R3))
    assert known.get("a") is None
    assert known.get("c") == CachedServer("legacy", R3)
    known.remember(None, CachedServer("legacy", R3))
    assert known.get(None) is None
    known.forget("c")
    assert known.get("c") is None
