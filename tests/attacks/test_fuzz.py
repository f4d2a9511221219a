"""Spoilt conversations, briefly and from one seed; `make fuzz` takes ten minutes for each transport."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from attacks.fuzz import WORK, fuzz
from attacks.mutations import conversations, spoil
from attacks.report import GotThrough

from attacks import weight


@pytest.mark.slow
@pytest.mark.parametrize("transport", WORK)
def test_nothing_crashes_hangs_or_grows(transport: str) -> None:
    assert asyncio.run(fuzz(transport, seconds=0.5, seed=1))


def test_a_seed_repeats_what_was_said() -> None:
    recorded = [line for said in conversations("C").values() for one in said for line in one]
    first, second = Random(5), Random(5)
    assert [spoil(line, first) for line in recorded] == [spoil(line, second) for line in recorded]


class Machine:
    """A made-up one: what each thread of process 7 has waited for a core, and what time it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: dict[int, float] = {}
        self.now = self.lost = 0.0
        monkeypatch.setattr(weight, "kept_waiting", lambda _: dict(self.threads))
        monkeypatch.setattr(weight, "stolen", lambda: self.lost)
        monkeypatch.setattr(weight.time, "monotonic", lambda: self.now)


def test_what_one_thread_waited_long_ago_does_not_hide_what_another_waits_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    machine.threads = {1: 10.0, 2: 500.0}
    waiting = weight.Waiting((7,))
    machine.now, machine.threads = 2.0, {1: 11.5, 2: 500.0}
    assert waiting.seconds() == 1.5


def test_a_thread_that_ends_takes_no_patience_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.threads = {1: 10.0, 2: 500.0}
    waiting = weight.Waiting((7,))
    machine.now, machine.threads = 2.0, {1: 10.5}
    assert waiting.seconds() == 0.5


def test_what_is_lost_by_several_at_once_is_lost_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.threads = {1: 0.0}
    waiting = weight.Waiting((7, 8))
    machine.now, machine.lost, machine.threads = 2.0, 1.0, {1: 1.5}
    assert waiting.seconds() == 2.0
    machine.now = 4.0
    assert waiting.seconds() == 2.0


def test_work_that_never_ends_is_a_hang_and_says_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def never() -> None:
        await weight.in_time(asyncio.Event().wait(), os.getpid(), said=bytearray(b"the last word"))

    monkeypatch.setattr(weight, "PATIENCE", 0.1)
    monkeypatch.setattr(weight, "LOOK", 0.02)
    with pytest.raises(GotThrough, match="the last word"):
        asyncio.run(never())
    assert "asyncio/locks.py" in capfd.readouterr().err


def test_a_loop_that_does_not_come_round_ends_the_process_with_a_stack() -> None:
    script = (
        "import asyncio, threading\nfrom attacks import weight\nweight.STUCK = 0.5\n"
        "async def stuck(): threading.Event().wait()\nasyncio.run(weight.in_time(stuck()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 1
    assert "in stuck" in done.stderr
