"""Every attack in its short form, on every host it is made for; `make attack` makes them in full."""

import pytest
from attacks.attempts import attempt, places
from attacks.report import ATTACKS, Attack, Scale

EVERY = [(one, host) for one in ATTACKS for host in places(one)]


# One at a time: most of them fill a machine, and measure what others feel of it.
@pytest.mark.xdist_group("attacks")
@pytest.mark.parametrize(("one", "host"), EVERY, ids=[f"{one.title}-{host}" for one, host in EVERY])
def test_what_is_tried_holds(one: Attack, host: str) -> None:
    outcome = attempt(one, host, Scale(short=True))
    assert outcome.held, outcome.line()
