"""The attacks in their short form, each on a server of its own; `make attack` runs them in full."""

import pytest
from attacks.attempts import attempt, places
from attacks.report import ATTACKS, Attack, Scale

CASES = [(one, host) for one in ATTACKS for host in places(one)]


@pytest.mark.parametrize(("one", "host"), CASES, ids=[f"{one.title}-{host}" for one, host in CASES])
def test_it_holds(one: Attack, host: str) -> None:
    outcome = attempt(one, host, Scale(short=True))
    assert outcome.held, f"{one.tried} → {outcome.detail}"
