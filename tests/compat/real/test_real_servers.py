"""Real public servers list and answer the same on ours as on their original library."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SERVERS = json.loads((Path(__file__).parent / "servers.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVERS)
def test_a_real_server_is_the_same(name: str) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "compat_proof.py"), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
