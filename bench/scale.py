"""Extrapolate measured costs: the calls per second of many workers, and the memory of a million sessions.

``python -m bench.scale [ROUNDS]`` measures 1, 2 and 4 workers and writes the tables of docs/performance.md.
"""

from __future__ import annotations

import math
import statistics
import sys
from pathlib import Path
from typing import Final, NamedTuple

from .measures import workers
from .rounds import Options
from .samples import Figures

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
ROUND: Final = 0.4
"""Seconds of a round."""


class Costs(NamedTuple):
    """Microseconds of CPU, measured on one machine."""

    call: float
    """One call over HTTP, in the workers."""
    driver: float
    """The same call in the load generator."""


class Fleet(NamedTuple):
    """The resources for this number of sessions and calls."""

    workers: int
    machines: int
    memory: float
    """GiB on each machine."""
    shards: int
    """Of Redis."""
    store: float
    """GiB in all of them."""
    bandwidth: float
    """Gbit/s in and out, of all machines."""


def fleet(
    *,
    calls: float,
    sessions: float,
    call_us: float,
    busy: float = 0.6,
    cores: int = 16,
    session_kib: float = 6.0,
    seen: float = 1.2,
    stored_kib: float = 0.6,
    worker_mib: float = 60.0,
    writes: float = 0.1,
    shard: float = 60_000.0,
    shard_gib: float = 8.0,
    bytes_per_call: float = 1_200.0,
) -> Fleet:
    """``busy`` is the share of a core that calls may take; ``seen`` the workers that know a session; ``writes`` the
    share of calls that change what is kept, four commands each; ``shard`` the commands a Redis answers in a second."""
    workers = math.ceil(calls * call_us / 1e6 / busy)
    machines = math.ceil(workers / cores)
    memory = (workers * worker_mib / 1024 + sessions * seen * session_kib / 1024**2) / machines
    store = sessions * stored_kib / 1024**2
    shards = max(math.ceil(calls * writes * 4 / shard), math.ceil(store / shard_gib))
    return Fleet(workers, machines, memory, shards, store, calls * bytes_per_call * 8 / 1e9)


def table(page: str, head: str) -> list[list[str]]:
    """The rows of the table of ``page`` whose head begins so."""
    lines = page[page.index(f"| {head}") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _with_table(page: str, head: str, rows: list[tuple[str, ...]]) -> str:
    before, _, rest = page.partition(f"| {head}")
    old, _, after = rest.partition("\n\n")
    lines = [
        f"| {head}" + old.split("\n")[0],
        old.split("\n")[1],
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return before + "\n".join(lines) + "\n\n" + after


def measured(rounds: int) -> dict[int, Costs]:
    """What a call costs with each number of workers: the median of the rounds."""
    found: dict[int, Costs] = {}
    for count, samples in workers.rates(Figures(), Options(rounds=rounds, throughput=ROUND)).items():
        costs = [statistics.median(one.extra[name] for one in samples) for name in ("cpu", "cpu_driver")]
        found[count] = Costs(*map(round, costs))
    return found


def written(page: str, found: dict[int, Costs]) -> str:
    """The page with these figures, and what follows from them."""
    rows = [(str(count), f"{costs.call} µs", f"{costs.driver} µs") for count, costs in found.items()]
    page = _with_table(page, "workers", rows)
    call = found[1].call
    sizes = ((1_000, 10_000), (10_000, 100_000), (100_000, 1_000_000))
    fleets = [
        (calls, sessions, fleet(calls=calls, sessions=sessions, call_us=call)) for calls, sessions in sizes
    ]
    return _with_table(
        page,
        "calls/s",
        [
            (
                f"{calls:,}",
                f"{sessions:,}",
                f"{one.workers:,}",
                f"{one.machines}",
                f"{one.memory:.1f} GiB",
                f"{one.shards}",
                f"{one.store:.2f} GiB",
                f"{one.bandwidth:.2f} Gbit/s",
            )
            for calls, sessions, one in fleets
        ],
    )


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    PAGE.write_text(written(PAGE.read_text(), measured(rounds)))
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
