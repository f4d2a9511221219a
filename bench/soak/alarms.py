"""The three alarms of erlmcp's sustained-load benchmark, on the slopes over the windows.

A slope is the median of the slopes between all pairs of windows (Theil and Sen), so that a few odd windows do not move
it, with the interval that holds the true one in 95 of 100 runs (Sen 1968). It is an alarm when it is beyond its bound
and is not noise; it is fine if the whole interval is below the limit. Anything between is unsure, which is
not clean either: the run was too short, or the machine too restless, to say that nothing is wrong.

Slopes in percent are relative to the level at the beginning of the measured minutes, as the fitted line has it.
"""

from __future__ import annotations

import math
import statistics
from itertools import combinations
from typing import NamedTuple

THROUGHPUT = -5.0
"""Percent per minute: falling faster than this is an alarm."""
MEMORY = 1.0
"""MiB per minute: growing faster than this is an alarm."""
P99 = 10.0
"""Percent per minute: growing faster than this is an alarm."""
CONFIDENCE = 1.96
"""Standard deviations on either side of a slope: 95 %."""

Points = list[tuple[float, float]]
"""The minute and value of each measurement."""


class Window(NamedTuple):
    """What one stretch of a transport's traffic showed."""

    minute: float
    rate: float
    p99: float


class Slope(NamedTuple):
    """How something changes per minute; ``low`` and ``high`` enclose it."""

    name: str
    value: float
    low: float
    high: float
    bound: float
    unit: str

    @property
    def verdict(self) -> str:
        if self._beyond(self.value) and not self.low <= 0 <= self.high:
            return "ALARM"
        return "unsure" if self._beyond(self.low if self.bound < 0 else self.high) else "ok"

    def _beyond(self, value: float) -> bool:
        return value < self.bound if self.bound < 0 else value > self.bound

    def __str__(self) -> str:
        interval = f"[{self.low:+.2f}, {self.high:+.2f}]"
        what = f"{self.name:34} {self.value:+7.2f} {interval:18} {self.unit}"
        return f"{self.verdict:6}  {what} (alarm at {self.bound:+g})"


def fit(points: Points) -> tuple[float, float, float]:
    """The slope per minute, and the ends of its interval; without two points nothing is known."""
    slopes = sorted((b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2) if b[0] != a[0])
    if not slopes:
        return 0.0, -math.inf, math.inf
    count = len(points)
    spread = CONFIDENCE * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low, high = math.floor((len(slopes) - spread) / 2), math.ceil((len(slopes) + spread) / 2)
    return (
        statistics.median(slopes),
        slopes[low] if low >= 0 else -math.inf,
        slopes[high] if high < len(slopes) else math.inf,
    )


def relative(name: str, points: Points, bound: float) -> Slope:
    """A slope in percent of the level at the beginning."""
    value, low, high = fit(points)
    begun = points[0][0] if points else 0.0
    level = statistics.median(y - value * (x - begun) for x, y in points) if points else 0.0
    # A line that begins at nothing has no percentage; it is as steep as can be.
    scale = 100 / level if level > 0 else math.inf
    return Slope(name, value * scale if value else 0.0, low * scale, high * scale, bound, "%/min")


def slopes(name: str, windows: list[Window]) -> list[Slope]:
    """The slopes of one transport's traffic."""
    return [
        relative(f"{name}: throughput", [(one.minute, one.rate) for one in windows], THROUGHPUT),
        relative(f"{name}: p99", [(one.minute, one.p99) for one in windows], P99),
    ]


def growth(name: str, weights: Points) -> Slope:
    """The slope of resident memory, in MiB; garbage that waits for its collector counts."""
    return Slope(f"{name}: memory", *fit(weights), MEMORY, "MiB/min")


def together(weights: dict[str, Points]) -> Points:
    """The memory of all processes as one."""
    return [
        (points[0][0], sum(weight for _, weight in points)) for points in zip(*weights.values(), strict=True)
    ]
