"""Write the run as tables for the terminal and as JSON."""

from __future__ import annotations

import datetime
import os
import platform
import re
import statistics
from pathlib import Path
from typing import Any

import msgspec

from . import peers
from .samples import Figure, Figures
from .targets import Verdict, verdicts

ORDER = list(peers.BY_NAME)
SHORT = {"2025-11-25": "legacy", "2026-07-28": "modern", "": ""}
TABLES = (
    ("Round trip, one by one, median", "latency_p50"),
    ("Round trip, one by one, 99th percentile", "latency_p99"),
    ("Calls per second, 1 in flight", "rate_1"),
    ("Calls per second, 64 in flight", "rate_64"),
    ("Share of the limit's rate, 64 in flight, side by side", "share_64"),
    ("Calls per second, 256 in flight", "rate_256"),
    ("CPU per call, 64 in flight", "cpu"),
    ("CPU per call in the load generator, 64 in flight", "cpu_driver"),
    ("CPU per call, one by one", "cpu_1"),
    ("Start to first answer", "start"),
    ("Memory at rest", "memory"),
    ("Memory of an idle session", "memory_session"),
    ("Memory of an open stream", "memory_stream"),
    ("News to each of many listeners, median", "news_p50"),
    ("News to each of many listeners, 99th percentile", "news_p99"),
    ("News: CPU of the workers", "news_cpu"),
    ("erlmcp's workloads", "erlmcp"),
    ("handle(): CPU per call, no transport", "handle"),
    ("CPU of the start of a task", "task_start"),
    ("Client, one by one", "client_rate_1"),
    ("Client, 64 at once", "client_rate_64"),
    ("Tasks of an open client", "client_tasks"),
    ("Memory of an open client", "client_memory"),
)
QUIET = 1.25
"""Rounds that lie further apart than this were disturbed."""
LESS_IS_BETTER = ("latency", "cpu", "start", "memory", "handle", "client_tasks", "client_memory")


def number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def by_number(name: str) -> list[str]:
    """A key that puts 50 before 1000."""
    return [part.zfill(9) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def tables(figures: Figures) -> str:
    """Every figure, with its ratio to the limit and to Dovetail."""
    parts: list[str] = []
    for title, measure in TABLES:
        rows = [one for one in figures.all if one.measure == measure]
        if rows:
            parts.append(_table(title, rows, figures))
    return "\n\n".join(parts)


def _table(title: str, rows: list[Figure], figures: Figures) -> str:
    rows.sort(key=lambda one: (one.transport, by_number(one.workload), one.era, ORDER.index(one.peer)))
    lines = [f"{title} ({rows[0].unit}; the median of the rounds)"]
    head = (
        "transport",
        "workload",
        "era",
        "who",
        "value",
        "of the limit",
        "Dovetail is",
        "rounds × calls, s",
    )
    lines.append(_line(head))
    lines += [_line(_cells(one, figures)) for one in rows]
    return "\n".join(lines)


def _line(cells: tuple[str, ...]) -> str:
    widths = (9, 27, 7, 16, 10, 12, 13, 22)
    left = "  ".join(cell.ljust(width) for cell, width in zip(cells[:4], widths, strict=False))
    right = "  ".join(cell.rjust(width) for cell, width in zip(cells[4:], widths[4:], strict=True))
    return f"  {left}  {right}"


def _cells(one: Figure, figures: Figures) -> tuple[str, ...]:
    return (
        one.transport,
        one.workload,
        SHORT[one.era],
        one.peer,
        number(one.value) + (" ms" if "ms per" in one.unit else ""),
        _to_limit(one, figures),
        _against(one, figures),
        f"{one.rounds} × {one.calls:,}, {one.seconds:.2g} s",
    )


def _to_limit(one: Figure, figures: Figures) -> str:
    ratio = to_limit(one, figures)
    return "" if ratio is None else f"{ratio:.2f}×"


def _against(one: Figure, figures: Figures) -> str:
    better = times_better(one, figures)
    if better is None:
        return ""
    return f"{better:.1f}× better" if better >= 1 else f"{1 / better:.1f}× worse"


def to_limit(one: Figure, figures: Figures) -> float | None:
    """The figure over the limit's, where the limit was measured doing the same."""
    limit = figures.get(one.measure, "limit", one.workload, one.transport, one.era)
    if limit is None or one.peer == "limit" or not limit.value:
        return None
    return one.value / limit.value


def times_better(one: Figure, figures: Figures) -> float | None:
    """How many times better Dovetail is on the same thing, in the same era where it has one."""
    if one.peer.startswith(("dovetail", "limit")) or not one.value:
        return None
    ours = figures.get(one.measure, "dovetail", one.workload, one.transport, one.era)
    if ours is None or not ours.value:
        return None
    less = one.measure.startswith(LESS_IS_BETTER) or "ms per" in one.unit
    return one.value / ours.value if less else ours.value / one.value


def as_data(figures: Figures) -> list[dict[str, Any]]:
    """Every figure with its unit, workload, duration and sample size, and its ratios."""
    found: list[dict[str, Any]] = []
    for one in figures.all:
        data = msgspec.to_builtins(one)
        for name, ratio in (
            ("to_limit", to_limit(one, figures)),
            ("dovetail_times_better", times_better(one, figures)),
        ):
            if ratio is not None:
                data[name] = round(ratio, 3)
        found.append(data)
    return found


def promises(figures: Figures) -> str:
    """The targets, and the values of this run."""
    lines = ["What was promised (scale: this benchmark's own bounds)"]
    lines += ["  " + _promise(verdict) for verdict in verdicts(figures)]
    return "\n".join(lines)


def _promise(verdict: Verdict) -> str:
    target = verdict.target
    bound = f"{'at most' if target.most else 'at least'} {target.bound:g} {target.unit}"
    if verdict.value is None:
        return f"not measured  {target.area:7} {target.text} ({bound})"
    found = f"{verdict.value:.2f} {target.unit}"
    if verdict.met:
        return f"met           {target.area:7} {target.text}: {found} ({bound})"
    return (
        f"MISSED        {target.area:7} {target.text}: {found} ({bound}), short by {verdict.short_by:.0f} %"
    )


def noise(figures: Figures) -> str:
    """Return the spread of the rounds of one case, as a measure of its accuracy."""
    apart = [max(one.spread) / min(one.spread) for one in figures.all if one.spread and min(one.spread) > 0]
    if not apart:
        return ""
    typical = statistics.median(apart)
    words = f"Noise: the highest round of a case is typically {typical:.2f} times its lowest."
    if typical > QUIET:
        words += " This machine was busy: a ratio near its bound is not settled by this run."
    return words


def machine() -> dict[str, str]:
    model = next(
        (line.partition(":")[2].strip() for line in _cpu_lines() if line.startswith("model name")), "?"
    )
    return {
        "processor": model,
        "cores": str(len(os.sched_getaffinity(0))),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _cpu_lines() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def judged(figures: Figures) -> list[dict[str, Any]]:
    """The promises as data."""
    return [
        {
            "area": verdict.target.area,
            "text": verdict.target.text,
            "bound": verdict.target.bound,
            "at_most": verdict.target.most,
            "unit": verdict.target.unit,
            "value": verdict.value,
            "met": verdict.met,
        }
        for verdict in verdicts(figures)
    ]


def as_json(figures: Figures, seconds: float) -> bytes:
    """Everything, with what a reader needs to judge it."""
    document = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "seconds": round(seconds),
        "machine": machine(),
        "noise": noise(figures),
        "load": [round(one, 2) for one in os.getloadavg()],
        "versions": {
            peer.name: peers.version(peer) for peer in peers.ALL if peers.installed(peer.environment)
        },
        "figures": as_data(figures),
        "promises": judged(figures),
        "skipped": figures.skipped,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"
