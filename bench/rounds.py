"""Interleaved rounds: every case once, then every case again, so that a busy moment hits all alike."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Struct

from .samples import Sample
from .workloads import WrongReply

Key = TypeVar("Key")


class Options(Struct):
    """How much is measured."""

    rounds: int = 3
    sequential: float = 0.4
    """Seconds of one sequential run."""
    throughput: float = 0.6
    """Seconds of one run with many calls in flight."""
    workload: float = 0.2
    """Seconds of one run of a lesser workload."""
    judged: float = 1.0
    """Seconds at least of the runs that promises are judged by: ours and the limit's, with many in flight."""
    pairs: int = 9
    """How often we and the limit run one directly after the other, where a share of the limit was promised."""
    in_flight: tuple[int, ...] = (64, 256)
    starts: int = 5
    sessions: tuple[int, ...] = (1, 1000, 10_000)
    streams: int = 1000
    clients: int = 1000
    client: float = 1.0
    workloads: tuple[str, ...] = ("add", "nested", "list100", "notify", "ask", "sleep10ms")
    only: str = ""

    def wants(self, part: str) -> bool:
        return not self.only or part in self.only.split(",")


QUICK = Options(
    rounds=2,
    sequential=0.15,
    throughput=0.25,
    workload=0.1,
    pairs=3,
    in_flight=(64,),
    starts=2,
    sessions=(1, 1000),
    streams=200,
    clients=200,
    client=0.4,
    workloads=("add", "notify", "ask"),
    only="start,stdio,http,auth,tcp,sessions,handle,clients",
)


BEGUN = time.monotonic()
LATE = 840.0
"""Seconds after which no case is repeated: all of it must end within 15 minutes, on a busy machine too."""


def say(text: str) -> None:
    """Print the progress."""
    print(f"{time.monotonic() - BEGUN:5.0f} s  {text}", file=sys.stderr, flush=True)


def side_by_side(ours: Callable[[], Sample], limit: Callable[[], Sample], pairs: int) -> list[Sample]:
    """Our share of the limit, pair by pair; who begins changes.

    A machine whose cores are taken away for seconds makes either of two runs slower that lie a minute apart, and the
    share of their medians then says which of them it was. Two that touch are nearly always hit alike.
    """
    found: list[Sample] = []
    for run in (ours, limit):
        run()  # what runs often is specialized
    for number in range(pairs):
        if number and time.monotonic() - BEGUN > LATE:
            break
        gc.collect()
        gc.disable()
        try:
            if number % 2:
                one = ours()
                share = one.value / limit().value
            else:
                bare = limit().value
                one = ours()
                share = one.value / bare
        finally:
            gc.enable()
        found.append(Sample(share, one.calls, one.seconds))
    return found


def interleave(
    cases: Mapping[Key, Callable[[], Sample]], rounds: int, skipped: list[str]
) -> dict[Key, list[Sample]]:
    """Run every case ``rounds`` times, in turn. A case that fails is dropped, and why is noted; so are the
    rounds for which no time was left."""
    found: dict[Key, list[Sample]] = {key: [] for key in cases}
    order = list(cases)
    for number in range(rounds):
        if number and time.monotonic() - BEGUN > LATE:
            skipped.append(
                f"{rounds - number} of {rounds} rounds of {order[0]} and its like: it was too late"
            )
            break
        # Each round begins with another case, so that none always runs after the same one.
        for key in order[number % len(order) :] + order[: number % len(order)]:
            if key not in found:
                continue
            gc.collect()
            gc.disable()
            try:
                found[key].append(cases[key]())
            except (WrongReply, OSError, RuntimeError) as error:
                skipped.append(f"{key}: {error}"[:400])
                del found[key]
            finally:
                gc.enable()
    return found
