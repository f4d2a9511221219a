"""Every attack in its short form, on every HTTP server it is made for; `make attack` runs them in full."""

import pytest
from attacks.attempts import attempt
from attacks.report import ATTACKS, Attack, Scale

pytestmark = pytest.mark.slow

EVERY = [pytest.param(one, id=one.title) for one in ATTACKS]


@pytest.mark.parametrize("one", EVERY)
def test_the_attack_does_no_harm(one: Attack) -> None:
    outcome = attempt(one, Scale(short=True))
    assert outcome.held, outcome.line()
