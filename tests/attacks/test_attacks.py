"""Every attack in its short form, on every host it is made for; `make attack` makes them in full."""

import re

import pytest
from attacks.attempts import attempt, places
from attacks.report import ATTACKS, Attack, Scale

OWN = re.compile("head|bod|pipeline|upgrade|reads|never_end|hang_up")
"""Attacks on what a host does itself."""
EVERY = [
    # What is the same on every host is tried on the two that serve most: the third has its own parser and sockets.
    pytest.param(
        one,
        host,
        id=f"{one.title}-{host}",
        marks=[pytest.mark.slow] if host == "asyncio" and not OWN.search(one.title) else (),
    )
    for one in ATTACKS
    for host in places(one)
]


@pytest.mark.parametrize(("one", "host"), EVERY)
def test_what_is_tried_holds(one: Attack, host: str) -> None:
    outcome = attempt(one, host, Scale(short=True))
    assert outcome.held, outcome.line()
