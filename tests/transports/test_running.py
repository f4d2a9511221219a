"""What a process of ours does to its surroundings, and takes back."""

import gc
import platform
import subprocess
import sys

import pytest

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


BLOCKS = """
import os, resource
from dovetail.transports.running import give_back, keep_blocks
keep_blocks()
def used():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
b"x" * (8 << 20)
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    b"x" * (8 << 20)
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
before, kept = used(), []
for _ in range(8):
    kept.append(bytearray(b"x") * (9 << 20))
    kept.append(b"z" * 100_000)
del kept[::2]
give_back()
print(faults, used() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told so")
def test_large_blocks_are_used_again_and_go_back_to_the_system_in_the_end() -> None:
    found = subprocess.run([sys.executable, "-c", BLOCKS], capture_output=True, text=True, check=True)
    faults, more = map(int, found.stdout.split())
    assert faults < 1000  # each of them anew: 20,000
    assert more < 8
