"""The states of a client's connection."""

import pytest

from dovetail.core.connection_states import TRANSITIONS, ConnectionMachine
from dovetail.errors import StateError

STATES = tuple(TRANSITIONS)

EVENTS = (
    "connected",
    "established",
    "restart",
    "pause",
    "resume",
    "lost",
    "retry",
    "fail",
    "drain",
    "close",
)
STEPS = {
    ("starting", "connected"): "negotiating",
    ("negotiating", "established"): "ready",
    ("negotiating", "restart"): "starting",
    ("ready", "pause"): "paused",
    ("paused", "resume"): "ready",
    ("backoff", "retry"): "starting",
    ("draining", "lost"): "closed",
    **{(state, "lost"): "backoff" for state in ("starting", "negotiating", "ready", "paused")},
    **{(state, "drain"): "draining" for state in ("starting", "negotiating", "ready", "paused", "backoff")},
    **{(state, "fail"): "failed" for state in STATES if state not in ("failed", "closed")},
    **{(state, "close"): "closed" for state in STATES if state != "closed"},
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("event", EVENTS)
def test_every_step_of_a_connection_is_allowed_or_refused_as_the_table_says(state: str, event: str) -> None:
    seen: list[str] = []
    machine = ConnectionMachine(seen.append)
    machine.state = state
    expected = STEPS.get((state, event))
    assert machine.may(event) is (expected is not None)
    if expected is None:
        with pytest.raises(StateError):
            machine.advance(event)
        assert machine.state == state
        assert seen == []
    else:
        assert machine.advance(event) == machine.state == expected
        assert seen == [expected]


def test_every_state_can_be_reached_and_every_state_but_closed_can_be_left() -> None:
    assert set(STEPS.values()) | {"starting"} == set(STATES)
    assert {before for before, _ in STEPS} == set(STATES) - {"closed"}


def test_a_state_listener_sees_the_new_state_and_may_advance_it() -> None:
    path: list[str] = []

    def follow(state: str) -> None:
        path.append(f"{state} {machine.state}")
        if state == "failed":
            machine.advance("close")

    machine = ConnectionMachine(follow)
    machine.advance("fail")
    assert path == ["failed failed", "closed closed"]


def test_a_step_that_is_only_tried_is_taken_where_there_is_one() -> None:
    machine = ConnectionMachine()
    machine.try_advance("resume")
    assert machine.state == "starting"
    machine.try_advance("connected")
    assert machine.state == "negotiating"
