"""Write the README's tables from what the last runs left in docs/: `make conformance`, `make bench`.

usage: tables.py [--check] — with --check, fail if the README does not show those results.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PEERS = {
    "limit": "the limit",
    "dovetail": "**Dovetail**",
    "sdk": "official SDK",
    "fastmcp": "FastMCP",
    "minimcp": "MiniMCP",
    "typescript": "TypeScript SDK",
}
ROWS = (
    ("stdio, echo, one by one: median round trip, µs", "latency_p50", "echo", "stdio", ""),
    ("stdio, echo, 64 in flight: calls/s", "rate_64", "echo", "stdio", ""),
    ("HTTP 2026-07-28, echo, 64 connections: calls/s", "rate_64", "echo", "http", "2026-07-28"),
    ("HTTP legacy session, echo, 64 connections: calls/s", "rate_64", "echo", "http", "2025-11-25"),
    ("process start to first answer, ms", "start", "", "", ""),
    ("resident memory at rest, MiB", "memory", "", "", ""),
    ("client over stdio, 64 at once: calls/s", "client_rate_64", "echo", "stdio", ""),
    ("client over HTTP, 64 at once: calls/s", "client_rate_64", "echo", "http", ""),
)


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def find(
    figures: list[dict[str, Any]], measure: str, peer: str, workload: str, transport: str, era: str
) -> str:
    for one in figures:
        if (one["measure"], one["peer"]) != (measure, peer):
            continue
        wanted = (("workload", workload), ("transport", transport), ("era", era))
        if all(not value or one.get(name, "") == value for name, value in wanted):
            return number(one["value"])
    return "–"


def bench() -> str:
    path = ROOT / "docs/bench.json"
    if not path.exists():
        return "Not measured yet: run `make bench`."
    document = json.loads(path.read_text())
    figures = document["figures"]
    lines = ["| | " + " | ".join(PEERS.values()) + " |", "|---" * (len(PEERS) + 1) + "|"]
    for label, *what in ROWS:
        cells = [find(figures, what[0], peer, *what[1:]) for peer in PEERS]
        if any(cell != "–" for cell in cells):
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
    versions = ", ".join(f"{PEERS[name].strip('*')} {version}" for name, version in document["versions"].items()
                         if name in PEERS and name != "limit")  # fmt: skip
    machine = document["machine"]
    lines += [
        "",
        f"{document['date'][:10]}, {machine['cores']} cores of {machine['processor']}, Python {machine['python']}; "
        f"{versions}. Medians of interleaved rounds; all figures with their sample sizes are in "
        "[docs/bench.json](docs/bench.json). The peers run as they install, on plain uvicorn; Dovetail and the limit "
        "have httptools and uvloop, which the `http` extra brings, and Dovetail writes head and body of an answer at "
        "once where it knows the host.",
    ]
    if (ROOT / "docs/bench.svg").exists():
        lines += ["", "![Calls per second, side by side](docs/bench.svg)"]
    return "\n".join(lines)


def conformance() -> str:
    path = ROOT / "docs/conformance.json"
    if not path.exists():
        return "Not measured yet: run `make conformance`."
    document = json.loads(path.read_text())
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
    for name, table in (("conformance", conformance()), ("bench", bench())):
        block = f"<!-- {name} -->\n{table}\n<!-- /{name} -->"
        text = re.sub(rf"<!-- {name} -->.*?<!-- /{name} -->", lambda _, b=block: b, text, flags=re.DOTALL)
    if "--check" in sys.argv:
        return int(text != before)
    readme.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
