"""Every attack in its short form, on every host it is made for; `make attack` makes them in full."""

import re

import pytest
from attacks.attempts import attempt, places
from attacks.report import ATTACKS, Attack, Scale

OWN = re.compile("head|bod|pipeline|upgrade|reads|never_end|hang_up")
"""Attacks on what a host does itself."""
BEHIND = re.compile(
    "beside|strangers|addresses|tasks|session|cursors|words|http.a_batch|introd|strange_|site|old_pair|rate"
)
"""Attacks on what is behind every host, and is told the same by each of them: they take turns."""
TURNS = [one.title for one in ATTACKS if one.face == "http" and BEHIND.search(one.title)]


def usual(one: Attack, host: str) -> bool:
    """What is the same on every host is tried on the two that serve most: the third has its own parser and sockets."""
    if one.title in TURNS:
        return host == ("granian", "uvicorn")[TURNS.index(one.title) % 2]
    return host != "asyncio" or OWN.search(one.title) is not None


EVERY = [
    pytest.param(one, host, id=f"{one.title}-{host}", marks=() if usual(one, host) else pytest.mark.slow)
    for one in ATTACKS
    for host in places(one)
]


@pytest.mark.parametrize(("one", "host"), EVERY)
def test_what_is_tried_holds(one: Attack, host: str) -> None:
    outcome = attempt(one, host, Scale(short=True))
    assert outcome.held, outcome.line()
