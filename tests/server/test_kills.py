"""Workers killed at random, again and again: nothing that was acknowledged is lost, nothing is done twice."""

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from dovetail import Client
from tests.support.aio import run_limited
from tests.support.shared import Shared

from .mortal_calls import KINDS, do, make

ROOT = Path(__file__).resolve().parents[2]
SEED = 20_260_728

KNOWN = {
    "call": {"done", "call_interrupted"},
    "task": {"done", "call_interrupted", "task_failed"},
    "again": {"done", "call_interrupted"},
    "write": {"done"},
}
"""How each may end: done, or the truth about a worker that died."""


def killed(shared: Shared, effects: Path, kills: int) -> dict[int, str]:
    """What ``kills`` workers said before each was killed."""
    chance = random.Random(SEED)
    history: dict[int, str] = {}
    command = [sys.executable, "-m", "tests.server.mortal_calls", shared.place, str(effects)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        for _ in range(kills):
            host.stdin.write(f"{shared.ahead} {len(history)} {chance.uniform(0.0, 0.05)}\n")
            host.stdin.flush()
            for number, word in json.loads(host.stdout.readline()):
                assert int(number) not in history
                history[int(number)] = word
            shared.leases_run_out()
        host.stdin.close()
    return history


def check(shared: Shared, effects: Path, kills: int) -> None:
    history = killed(shared, effects, kills)
    done = Counter(int(line) for line in effects.read_text().split())
    said = {kind: [n for n in history if KINDS[n % len(KINDS)] == kind] for kind in KINDS}
    for kind, numbers in said.items():
        assert {history[number] for number in numbers} <= KNOWN[kind], kind
    assert [n for n, times in done.items() if times > 1 and KINDS[n % len(KINDS)] != "again"] == [], "doubled"
    acknowledged = [n for n, word in history.items() if word == "done"]
    assert [n for n in acknowledged if not done[n] and KINDS[n % len(KINDS)] != "write"] == [], "lost"
    unknown = [number for number, word in history.items() if word != "done"]
    assert len(unknown) <= kills
    assert len(history) >= kills

    async def repeated() -> None:
        server = make(shared.place, str(effects), shared.ahead)
        async with server.running(), Client(server) as client:
            for number in random.Random(SEED).sample(acknowledged, min(100, len(acknowledged))):
                if KINDS[number % len(KINDS)] != "write":
                    assert await do(server, client, number) == "done"  # from what is kept, not again
            store = server.lifecycle.store
            assert store is not None
            wrote = [number for number in said["write"] if history[number] == "done"]
            assert [n for n in wrote if await store.get(f"mine/{n}") != str(n).encode()] == [], "lost"

    run_limited(repeated())
    after = Counter(int(line) for line in effects.read_text().split())
    # Unfinished work of the last process is resumed; acknowledged work is unchanged.
    assert [number for number in acknowledged if after[number] != done[number]] == []


@pytest.mark.slow
def test_twenty_kills_lose_and_double_nothing(shared: Shared, tmp_path: Path) -> None:
    check(shared, tmp_path / "effects", 20)


@pytest.mark.slow
def test_five_hundred_kills_lose_and_double_nothing(shared: Shared, tmp_path: Path) -> None:
    check(shared, tmp_path / "effects", 500)
