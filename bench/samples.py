"""Figures: the measure, the peer, the unit, the number of calls and the duration."""

from __future__ import annotations

import statistics
from typing import Any

from msgspec import Struct


class Sample(Struct):
    """One run of one case."""

    value: float
    calls: int
    seconds: float
    extra: dict[str, float] = {}


class Figure(Struct):
    """The median of several runs."""

    measure: str
    peer: str
    workload: str
    value: float
    unit: str
    transport: str = ""
    era: str = ""
    rounds: int = 1
    calls: int = 0
    """Calls per round."""
    seconds: float = 0.0
    """Length of a round."""
    spread: list[float] = []
    """The lowest and the highest round."""
    note: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        return (self.measure, self.peer, self.workload, self.transport, self.era)


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def sampled(latencies: list[float], took: float, cpu: float, *, latency: bool) -> Sample:
    """One run with everything it shows; its value is the median round trip, or the rate."""
    sent = len(latencies)
    extra = {
        "p50": quantile(latencies, 0.5) * 1e6,
        "p99": quantile(latencies, 0.99) * 1e6,
        "rate": sent / took,
        "cpu_us": cpu / sent * 1e6,
    }
    return Sample(extra["p50"] if latency else sent / took, sent, took, extra)


def figure(samples: list[Sample], **what: Any) -> Figure:
    """Combine ``samples``: their median, or the best of them for the limit.

    The limit is a bound, so a round that the machine disturbed says nothing about it.
    """
    values = [sample.value for sample in samples]
    best = max if what["unit"].endswith("/s") else min
    return Figure(
        value=best(values) if what["peer"] == "limit" else statistics.median(values),
        rounds=len(samples),
        calls=round(statistics.median(sample.calls for sample in samples)),
        seconds=round(statistics.median(sample.seconds for sample in samples), 3),
        spread=[min(values), max(values)],
        **what,
    )


class Figures:
    """All figures of a run, found by what they are."""

    def __init__(self) -> None:
        self.all: list[Figure] = []
        self.skipped: list[str] = []

    def add(self, figure: Figure) -> None:
        self.all.append(figure)

    def get(
        self, measure: str, peer: str, workload: str = "", transport: str = "", era: str = ""
    ) -> Figure | None:
        for one in self.all:
            if (one.measure, one.peer) != (measure, peer):
                continue
            if workload and one.workload != workload:
                continue
            if transport and one.transport != transport:
                continue
            if era and one.era and one.era != era:
                continue
            return one
        return None

    def lowest(self, *what: str) -> float | None:
        """The lowest round of a figure."""
        one = self.get(*what)
        return None if one is None else min([one.value, *one.spread])

    def value(self, *what: str) -> float | None:
        found = self.get(*what)
        return None if found is None else found.value
