"""Write the README's tables from what the last runs of `make conformance` and `make bench` left in results/.

usage: tables.py [--check] — with --check, fail if the README does not show those results.

A table without results stays as it is. The small ones go into docs/ with their table: the scores and the chart.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
PEERS = {
    "limit": "the limit",
    "dovetail": "**Dovetail**",
    "sdk": "official SDK",
    "sdk-low": "official SDK, low level",
    "fastmcp": "FastMCP",
    "minimcp": "MiniMCP",
    "typescript": "TypeScript SDK",
}
LEGACY, MODERN = "2025-11-25", "2026-07-28"
ROWS = (
    ("stdio, echo, one by one: median round trip, µs", "latency_p50", "echo", "stdio", LEGACY),
    ("stdio, echo, one by one: 99th percentile, µs", "latency_p99", "echo", "stdio", LEGACY),
    ("stdio, echo, 64 in flight: calls/s", "rate_64", "echo", "stdio", LEGACY),
    (
        "stdio, echo, 64 in flight, 1,000 tools: µs of CPU per call",
        "cpu",
        "echo with 1000 tools",
        "stdio",
        LEGACY,
    ),
    ("HTTP 2026-07-28, echo, 64 connections: calls/s", "rate_64", "echo", "http", MODERN),
    ("HTTP legacy session, echo, 64 connections: calls/s", "rate_64", "echo", "http", LEGACY),
    ("HTTP 2026-07-28, a question per call, 64 at once: calls/s", "rate_64", "ask", "http", MODERN),
    ("HTTP legacy session, a question per call, 64 at once: calls/s", "rate_64", "ask", "http", LEGACY),
    ("TCP, bursts of 100 × 1 KiB: messages/s", "erlmcp", "tcp_burst_100_1kib", "tcp", MODERN),
    ("process start to first answer, ms", "start", "", "", ""),
    ("resident memory at rest, MiB", "memory", "", "", ""),
    ("an idle HTTP session among 1,000, KiB", "memory_session", "1000 idle sessions", "http", LEGACY),
    ("an open HTTP stream among 1,000, KiB", "memory_stream", "1000 open listen streams", "http", MODERN),
    ("client over stdio, legacy, one by one: calls/s", "client_rate_1", "echo", "stdio", LEGACY),
    ("client over stdio, legacy, 64 at once: calls/s", "client_rate_64", "echo", "stdio", LEGACY),
    ("client over HTTP, legacy, one by one: calls/s", "client_rate_1", "echo", "http", LEGACY),
    ("client over HTTP, legacy, 64 at once: calls/s", "client_rate_64", "echo", "http", LEGACY),
)


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def find(figures: list[dict[str, Any]], what: tuple[str, ...], peer: str) -> dict[str, Any] | None:
    measure, *rest = what
    for one in figures:
        if (one["measure"], one["peer"]) != (measure, peer):
            continue
        wanted = zip(("workload", "transport", "era"), rest, strict=True)
        if all(not value or one.get(name, "") == value for name, value in wanted):
            return one
    return None


def cell(one: dict[str, Any] | None) -> str:
    """The value; behind it what share of the limit we are, or how many times better than a peer."""
    if one is None:
        return "–"
    ratio = one.get("to_limit") if one["peer"] == "dovetail" else one.get("dovetail_times_better")
    if ratio is None:
        return number(one["value"])
    return (
        f"{number(one['value'])} ({ratio:.0f}×)" if ratio >= 10 else f"{number(one['value'])} ({ratio:.2g}×)"
    )


def sample(found: list[dict[str, Any]]) -> str:
    """How often, how long and over how many calls the figures of a row were measured."""
    rounds = sorted({one["rounds"] for one in found})
    seconds = [one["seconds"] for one in found]
    calls = [one["calls"] for one in found]
    return f"{span(rounds)} × {span(calls)} in {span(seconds)} s"


def span(values: list[float]) -> str:
    least, most = (
        f"{value:,}" if isinstance(value, int) else f"{value:.2g}" for value in (min(values), max(values))
    )
    return least if least == most else f"{least}–{most}"


def bench(document: dict[str, Any]) -> str:
    figures = document["figures"]
    lines = ["| | " + " | ".join(PEERS.values()) + " | rounds × sample |", "|---" * (len(PEERS) + 2) + "|"]
    for label, *what in ROWS:
        found = [find(figures, tuple(what), peer) for peer in PEERS]
        there = [one for one in found if one is not None]
        if there:
            lines.append(f"| {label} | " + " | ".join(map(cell, found)) + f" | {sample(there)} |")
    versions = ", ".join(f"{PEERS[name].strip('*')} {version}" for name, version in document["versions"].items()
                         if name in PEERS and name not in ("limit", "sdk-low"))  # fmt: skip
    machine = document["machine"]
    lines += [
        "",
        f"{document['date'][:10]}, {machine['cores']} cores of {machine['processor']}, Python {machine['python']}; "
        f"{versions}. Medians of interleaved rounds. In brackets: ours over the limit's, and how many times better we "
        "are than a peer; for calls/s of stdio and HTTP the share of the limit is the median of nine pairs of runs "
        "that touch, not the quotient of two columns measured minutes apart. "
        "`make bench` leaves all workloads and figures in `results/bench.json`. Dovetail and the "
        "limit run on granian, which Dovetail's `http` extra brings; the peers on uvicorn with httptools and uvloop.",
    ]
    lines += ["", "![Calls per second, side by side](docs/bench.svg)"]
    return "\n".join(lines)


def conformance(document: dict[str, Any]) -> str:
    lines = ["| | revision | scenarios | checks |", "|---|---|---|---|"]
    lines += [
        f"| {row['leg']} | {row['revision']} | {row['passed']}/{row['of']} | {row['checks_passed']}/{row['checks']} |"
        for row in document["rows"]
    ]
    lines += ["", f"{document['date']}, suite {document['suite']}. No failure, no warning." if all(
        row["passed"] == row["of"] for row in document["rows"]
    ) else f"{document['date']}, suite {document['suite']}."]  # fmt: skip
    return "\n".join(lines)


def main() -> int:
    readme = ROOT / "README.md"
    text = before = readme.read_text()
    for name, table in (("conformance", conformance), ("bench", bench)):
        found = RESULTS / f"{name}.json"
        if found.exists():
            block = f"<!-- {name} -->\n{table(json.loads(found.read_text()))}\n<!-- /{name} -->"
            text = re.sub(rf"<!-- {name} -->.*?<!-- /{name} -->", lambda _, b=block: b, text, flags=re.DOTALL)
    if "--check" in sys.argv:
        return int(text != before)
    readme.write_text(text)
    for name in ("conformance.json", "bench.svg"):
        if (RESULTS / name).exists():
            shutil.copy(RESULTS / name, ROOT / "docs" / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
