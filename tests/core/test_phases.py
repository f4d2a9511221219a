"""The handshake, and the phases of a legacy session."""

from typing import Any

import pytest

from dovetail.core import phases
from dovetail.core.channel import Call
from dovetail.errors import StateError
from dovetail.wire.dialects import ERLMCP, OFFICIAL
from dovetail.wire.revisions import R1, R2, R4, R5, REVISIONS
from tests.core.messages import OFFER, SERVER, frame, initialize, server_admission, session

EVENTS = ("initialized", "pause", "resume", "drain", "close")
STEPS = {
    ("negotiating", "initialized"): "ready",
    ("ready", "pause"): "paused",
    ("paused", "resume"): "ready",
    **{(phase, "drain"): "draining" for phase in ("negotiating", "ready", "paused")},
    **{(phase, "close"): "closed" for phase in ("negotiating", "ready", "paused", "draining")},
}


@pytest.mark.parametrize("phase", phases.TRANSITIONS)
@pytest.mark.parametrize("event", EVENTS)
def test_every_step_of_a_session_is_allowed_or_refused_as_the_table_says(phase: str, event: str) -> None:
    lived = session(phase=phase)
    expected = STEPS.get((phase, event))
    if expected is None:
        with pytest.raises(StateError, match=f"session in phase {phase!r} does not allow {event!r}"):
            phases.advance(lived, event)
        assert lived.phase == phase
    else:
        assert phases.advance(lived, event) == lived.phase == expected


@pytest.mark.parametrize("revision", [r for r in REVISIONS if r.era == "legacy"])
def test_a_proposal_that_is_served_is_answered_with_itself(revision: phases.Revision) -> None:
    assert phases.negotiate(revision.name, REVISIONS) is revision


@pytest.mark.parametrize("proposal", ["2026-07-28", "2099-01-01", "1.0", ""])
def test_an_unknown_or_modern_proposal_is_answered_with_the_newest_legacy_revision(proposal: str) -> None:
    assert phases.negotiate(proposal, REVISIONS) is R4
    assert phases.negotiate(proposal, (R1, R2, R5)) is R2


def test_without_legacy_revisions_there_is_nothing_to_negotiate() -> None:
    assert phases.negotiate("2025-11-25", (R5,)) is None


def test_a_client_that_names_server_features_gets_their_intersection_only_when_asked_for() -> None:
    call = server_admission().admit(frame(initialize(capabilities={"tools": {}, "sampling": {}})), None)
    assert isinstance(call, Call)
    assert set(phases.handshake(call, OFFER, SERVER).capabilities) == set(OFFER)
    narrowed = phases.handshake(call, OFFER, SERVER, narrow=True).capabilities
    assert set(narrowed) == {"tools", "extensions"}


def test_a_client_that_names_no_server_feature_loses_nothing_by_the_intersection() -> None:
    assert phases.intersect(OFFER, {"sampling": {}}) == OFFER


def test_a_client_that_follows_changes_of_tools_names_a_capability_of_its_own() -> None:
    mine = {"roots": {"listChanged": True}, "sampling": {}, "tools": {"listChanged": True}}
    assert phases.intersect(OFFER, mine) == OFFER
    assert set(phases.intersect(OFFER, {**mine, "logging": {}})) < set(OFFER)


@pytest.mark.parametrize("value", [None, 5, True, "yes", []])
def test_a_server_feature_that_is_no_object_breaks_no_handshake(value: Any) -> None:
    narrowed = phases.intersect(OFFER, {"tools": value})
    assert set(narrowed) == (set(OFFER) if value is None else {"tools", "extensions"})


def test_a_client_may_ask_for_a_dialect_it_names_and_gets_official_for_an_unknown_one() -> None:
    for name, expected in (("erlmcp", ERLMCP), ("klingon", OFFICIAL), (7, OFFICIAL)):
        wish = {"experimental": {"dialect": {"name": name}}}
        call = server_admission().admit(frame(initialize(capabilities=wish)), None)
        assert isinstance(call, Call)
        assert call.session is not None
        assert call.codec.dialect is call.session.codec.dialect is expected
