"""What a process of ours does to its surroundings, and takes back."""

import gc

from dovetail.settings import COLLECT_AFTER, COLLECT_OLDER
from dovetail.transports import running


def test_the_collector_looks_rarely_while_we_serve_and_as_before_afterwards() -> None:
    before = gc.get_threshold()
    seen: list[tuple[int, ...]] = []

    async def main(stop: running.Stop) -> None:
        seen.append(gc.get_threshold())
        assert gc.get_freeze_count() > 0

    assert running.run(main, threads=1) == 0
    assert seen == [(COLLECT_AFTER, *COLLECT_OLDER)]
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_a_collector_that_was_switched_off_stays_so() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with running.collecting_rarely():
            assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
