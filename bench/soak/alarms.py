"""The three alarms of erlmcp's sustained-load benchmark, on the slopes of what was measured window by window."""

from __future__ import annotations

import statistics
from itertools import combinations
from typing import NamedTuple

THROUGHPUT = -5.0
"""Percent per minute: falling faster than this is an alarm."""
MEMORY = 1.0
"""MiB per minute: growing faster than this is an alarm."""
P99 = 10.0
"""Percent per minute: growing faster than this is an alarm."""
WARM_UP = 0.2
"""The share of the run that is not looked at: caches fill and pools grow in it."""


class Window(NamedTuple):
    """What one stretch of a transport's traffic showed."""

    minute: float
    rate: float
    p99: float


class Slope(NamedTuple):
    name: str
    value: float
    bound: float
    unit: str

    @property
    def alarm(self) -> bool:
        return self.value < self.bound if self.bound < 0 else self.value > self.bound

    def __str__(self) -> str:
        mark = "ALARM" if self.alarm else "ok"
        return f"{mark:5}  {self.name:40} {self.value:+8.2f} {self.unit} (alarm at {self.bound:+g})"


def slope(points: list[tuple[float, float]]) -> float:
    """The median of the slopes between all pairs of points: a few odd windows do not move it."""
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2) if b[0] != a[0]]
    return statistics.median(slopes) if slopes else 0.0


def _base(points: list[tuple[float, float]]) -> float:
    """The level from which it rises or falls: the middle of the first third."""
    first = points[: max(1, len(points) // 3)]
    return statistics.median(value for _, value in first) or 1.0


def _kept(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    return points[int(len(points) * WARM_UP) :]


def slopes(name: str, windows: list[Window]) -> list[Slope]:
    """The slopes of one transport's traffic."""
    rates = _kept([(one.minute, one.rate) for one in windows])
    tails = _kept([(one.minute, one.p99) for one in windows])
    return [
        Slope(f"{name}: throughput", slope(rates) / _base(rates) * 100, THROUGHPUT, "%/min"),
        Slope(f"{name}: p99", slope(tails) / _base(tails) * 100, P99, "%/min"),
    ]


def growth(name: str, weights: list[tuple[float, float]]) -> Slope:
    """The slope of one process's resident memory, in MiB; garbage that waits for its collector counts."""
    return Slope(f"{name}: memory", slope(_kept(weights)), MEMORY, "MiB/min")
