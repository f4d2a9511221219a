"""Every guard's refusal as a client sees it, on every revision and in erlmcp's dialect, and as it is explained."""

from typing import Any

import pytest

from dovetail import refusals
from dovetail.middleware import CircuitBreaker, Policy, RateLimit
from tests.middleware.test_circuit_breaker import flaky
from tests.support.aio import run
from tests.support.peer import LEGACY, MODERN, Peer

CAUSES: dict[str, tuple[Any, int, int]] = {
    "rate": (lambda: RateLimit(total="1/h"), 1003, -32010),
    "blocked": (lambda: RateLimit(total="1/h", block_period=60, block_threshold=1), 1056, 1056),
    "breaker": (lambda: CircuitBreaker(failure_threshold=1), 1008, 1086),
    "upstream": (lambda: CircuitBreaker(failure_threshold=1, per=lambda call: "bank"), 1009, -32039),
    "disabled": (lambda: Policy(disabled=["work"]), -32602, -32035),
    "not allowed": (lambda: Policy(allow=["other"]), 1005, -32037),
}


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
@pytest.mark.parametrize("dialect", ["official", "erlmcp"])
@pytest.mark.parametrize("cause", CAUSES)
@run
async def test_a_refusal_has_the_number_of_its_cause(cause: str, dialect: str, revision: str) -> None:
    make, official, erlmcp = CAUSES[cause]
    peer = Peer(flaky(make(), dialect=dialect), revision)
    for _ in range(4):
        answer = await peer.send("tools/call", name="work", arguments={"how": "broken"})
    # The numbers of a dialect belong to the revisions it has.
    wanted = erlmcp if dialect == "erlmcp" and revision != MODERN else official
    assert answer["error"]["code"] == wanted
    explained = refusals.explain(wanted)
    assert explained
    assert all(one.cause and one.fix for one in explained)
    if cause in ("rate", "blocked", "breaker", "upstream"):
        assert answer["error"]["data"]["retryAfterMs"] > 0
        assert any(one.retryable for one in explained)
