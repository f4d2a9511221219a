"""Layers change nothing for whoever is within the limits: a part of the suite with all of them switched on.

``make test-layers`` runs the rest so.
"""

import os
import subprocess
import sys

import pytest

TESTS = ["tests/server/test_failures.py", "tests/server/test_asking.py", "tests/server/test_running.py"]


@pytest.mark.skipif("EVERY_LAYER" in os.environ, reason="they are on already")
def test_a_part_of_the_suite_passes_with_every_layer_on() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *TESTS]
    environment = {**os.environ, "EVERY_LAYER": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment)
    assert done.returncode == 0, done.stdout[-3000:]
