"""examples/quickstart.py, as it is, serves clients of other libraries over stdio, on legacy and modern revisions."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench import peers

from .environment import need

pytestmark = pytest.mark.peer

SERVE = [sys.executable, "-m", "dovetail.cli.main", "run", str(peers.ROOT / "examples" / "quickstart.py")]
CLIENT = Path(__file__).with_name("quickstart_client.py")
REVISIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("library", ["sdk", "fastmcp"])
def test_the_quickstart_answers_a_foreign_client(library: str, era: str) -> None:
    need(library)
    done = subprocess.run(
        [peers.interpreter(library), str(CLIENT), library, era, *SERVE],
        capture_output=True,
        text=True,
        timeout=60,
        env=peers.environ(),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "revision": REVISIONS[era],
        "tools": ["book", "price"],
        "price": "120",
        "refused": True,
        "book": "Oslo, window seat",
        "prices": {"Oslo": 120, "Lisbon": 80},
        "weekend": "Plan a weekend in Oslo.",
    }
