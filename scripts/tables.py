"""Write the tables of the README and of docs from the results of `make conformance` and `make bench`.

usage: tables.py [--check] — with --check, fail if a page does not show those results.

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
    "fastmcp": "FastMCP",
    "minimcp": "MiniMCP",
    "typescript": "TypeScript SDK",
}
LEGACY, MODERN = "2025-11-25", "2026-07-28"
ROWS = (
    ("stdio, 64 calls in flight: calls/s", "rate_64", "echo", "stdio", LEGACY),
    ("HTTP, 64 connections: calls/s", "rate_64", "echo", "http", MODERN),
    ("HTTP, one connection: median round trip, µs", "latency_p50", "echo", "http", MODERN),
    ("HTTP, one elicitation per call, 64 connections: calls/s", "rate_64", "ask", "http", MODERN),
    ("HTTP, process start to first response, ms", "start", "initialize", "http", ""),
    ("HTTP, resident memory at rest, MiB", "memory", "at rest", "http", ""),
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
    """The value, then Dovetail relative to the limit, or how many times better Dovetail is than this library."""
    if one is None:
        return "–"
    ratio = one.get("to_limit") if one["peer"] == "dovetail" else one.get("dovetail_times_better")
    if ratio is None:
        return number(one["value"])
    return (
        f"{number(one['value'])} ({ratio:.0f}×)" if ratio >= 10 else f"{number(one['value'])} ({ratio:.2g}×)"
    )


def bench(document: dict[str, Any]) -> str:
    figures = document["figures"]
    lines = ["| | " + " | ".join(PEERS.values()) + " |", "|---" * (len(PEERS) + 1) + "|"]
    for label, *what in ROWS:
        older = [*what[:-1], what[-1] and LEGACY]
        found = [find(figures, tuple(what), peer) or find(figures, tuple(older), peer) for peer in PEERS]
        if any(found):
            lines.append(f"| {label} | " + " | ".join(map(cell, found)) + " |")
    versions = ", ".join(f"{PEERS[name].strip('*')} {version}" for name, version in document["versions"].items()
                         if name in PEERS and name != "limit")  # fmt: skip
    machine = document["machine"]
    lines += [
        "",
        f"{document['date'][:10]}, {machine['cores']} cores of {machine['processor']}, Python {machine['python']}; "
        f"{versions}. Median of interleaved rounds; for the limit, a bare msgspec loop, the best round. In brackets: "
        "Dovetail relative to the limit, and how many times better Dovetail is than the other library. HTTP rows use "
        "revision 2026-07-28, and 2025-11-25 for libraries without it. `make bench` writes every measurement to "
        "`results/bench.json`.",
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


def filled(text: str, folder: str) -> str:
    """``text`` with its tables written again; the chart is in ``folder``."""
    for name, table in (("conformance", conformance), ("bench", bench)):
        found = RESULTS / f"{name}.json"
        if found.exists():
            lines = table(json.loads(found.read_text())).replace("](docs/", f"]({folder}")
            block = f"<!-- {name} -->\n{lines}\n<!-- /{name} -->"
            text = re.sub(rf"<!-- {name} -->.*?<!-- /{name} -->", lambda _, b=block: b, text, flags=re.DOTALL)
    return text


def main() -> int:
    for page in (ROOT / "README.md", ROOT / "docs" / "performance.md", ROOT / "docs" / "conformance.md"):
        before = page.read_text()
        text = filled(before, "docs/" if page.parent == ROOT else "")
        if "--check" in sys.argv and text != before:
            return 1
        page.write_text(text)
    if "--check" in sys.argv:
        return 0
    for name in ("conformance.json", "bench.svg"):
        if (RESULTS / name).exists():
            shutil.copy(RESULTS / name, ROOT / "docs" / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
