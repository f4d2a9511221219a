"""Sessions of the original: each client has one, within a bound, and it ends with its client."""

from __future__ import annotations

import subprocess

import pytest

from .originals import PROGRAMS, environment, python

pytestmark = pytest.mark.peer


@pytest.mark.parametrize(
    "scenario",
    [
        "every_client_has_a_session",
        "one_too_many_is_refused_while_the_others_work",
        "a_session_that_fails_ends_its_calls_and_the_next_has_another",
        "a_session_of_clients_without_sessions_expires",
    ],
)
def test_sessions_of_the_original(scenario: str) -> None:
    """Each scenario is a function of ``programs/sessions.py``; it runs in the environment of the original."""
    line = [python("mcp1"), str(PROGRAMS / "sessions.py"), scenario]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
