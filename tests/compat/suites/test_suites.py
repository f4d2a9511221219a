"""The originals' own tests of their servers pass on ours, as many as the floor of each suite says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
KNOWN = json.loads((Path(__file__).parent / "suites.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN["suites"])
def test_as_much_of_a_suite_passes_as_before(name: str) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "compat_suites.py"), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
