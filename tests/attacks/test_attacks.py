"""Every attack in its short form, on every HTTP server it is made for; `make attack` runs them in full."""

import pytest
from attacks.attempts import attempt, places
from attacks.report import ATTACKS, Attack, Scale

pytestmark = pytest.mark.slow

EVERY = [pytest.param(one, host, id=f"{one.title}-{host}") for one in ATTACKS for host in places(one)]


@pytest.mark.parametrize(("one", "host"), EVERY)
def test_the_attack_does_no_harm(one: Attack, host: str) -> None:
    outcome = attempt(one, host, Scale(short=True))
    assert outcome.held, outcome.line()
