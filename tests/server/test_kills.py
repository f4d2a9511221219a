"""Workers killed at random, again and again: nothing that was acknowledged is lost, nothing is done twice."""

import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SEED = 20_260_728


def life(tmp_path: Path, ahead: int, first: int, wait: float) -> list[tuple[int, str]]:
    """One worker from its start to its kill, and what it said about its calls."""
    command = [
        sys.executable,
        "-m",
        "tests.server.mortal_calls",
        str(tmp_path / "s.db"),
        str(tmp_path / "effects"),
    ]
    with subprocess.Popen(
        [*command, str(ahead), str(first)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as child:
        assert child.stdout is not None
        said = [child.stdout.readline()]
        killer = threading.Timer(wait, child.kill)
        killer.start()
        said += child.stdout.readlines()
        killer.join()
    # A kill may cut the last line short.
    whole = [line.split() for line in said if line.endswith("\n")]
    return [(int(number), word) for number, word in whole]


def check(tmp_path: Path, kills: int) -> None:
    chance = random.Random(SEED)
    history: dict[int, str] = {}
    for kill in range(kills):
        # The clock of each life is ahead of the one before, so that the leases of the dead have run out.
        for number, word in life(tmp_path, 60 * kill, len(history), chance.uniform(0.0, 0.05)):
            assert number not in history
            history[number] = word
    effects = Counter(int(line) for line in (tmp_path / "effects").read_text().split())
    assert max(effects.values()) == 1, "done twice"
    assert [number for number, word in history.items() if word == "done" and number not in effects] == [], (
        "lost"
    )
    assert set(history.values()) <= {"done", "call_interrupted"}
    assert list(history.values()).count("call_interrupted") <= kills
    assert len(history) >= kills


def test_twenty_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    check(tmp_path, 20)


@pytest.mark.slow
def test_five_hundred_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    check(tmp_path, 500)
