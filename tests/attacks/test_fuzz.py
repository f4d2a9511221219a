"""Spoilt conversations, briefly and from one seed; `make fuzz` takes ten minutes for each transport."""

import asyncio
from random import Random

import pytest
from attacks.fuzz import WORK, fuzz
from attacks.mutations import conversations, spoil


@pytest.mark.parametrize("transport", WORK)
def test_nothing_crashes_hangs_or_grows(transport: str) -> None:
    assert asyncio.run(fuzz(transport, seconds=1.0, seed=1))


def test_a_seed_repeats_what_was_said() -> None:
    recorded = [line for said in conversations("C").values() for one in said for line in one]
    first, second = Random(5), Random(5)
    assert [spoil(line, first) for line in recorded] == [spoil(line, second) for line in recorded]
