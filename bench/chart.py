"""The picture for the README: calls per second with 64 in flight, over stdio and HTTP, as one SVG."""

from __future__ import annotations

import datetime
from html import escape

from . import peers
from .peers import LEGACY, MODERN
from .samples import Figure, Figures

WIDTH, LABEL, BAR, GAP, TOP = 860, 260, 22, 8, 64
ROOM = 230
"""Free space after the longest bar, for its value and sample."""
COLOURS = {"limit": "#9aa4b2", "dovetail": "#0b7a5b"}
OTHER = "#c8763a"


def svg(figures: Figures) -> str:
    """Two groups of bars. Each is scaled to its own limit, which is drawn too."""
    groups = [
        ("stdio, echo of 5 bytes, 64 calls in flight", _rates(figures, "stdio")),
        ("HTTP, echo of 5 bytes, 64 connections", _rates(figures, "http")),
    ]
    body: list[str] = []
    y = TOP
    for title, rows in groups:
        if rows:
            y = _group(body, title, rows, y)
    today = datetime.date.today().isoformat()
    versions = ", ".join(
        f"{peer.title} {peers.version(peer)}" for peer in peers.ALL[1:] if peer is not peers.SDK_LOW
    )
    body.append(_text(16, y + 6, f"{today} · {versions} · made by make bench", "note"))
    return "\n".join([_head(y + 24), *body, "</svg>", ""])


def _rates(figures: Figures, transport: str) -> list[tuple[str, Figure]]:
    rows: list[tuple[str, Figure]] = []
    for peer in peers.ALL:
        for era in (MODERN, LEGACY):
            found = next(
                (
                    one
                    for one in figures.all
                    if (one.measure, one.peer, one.workload, one.transport, one.era)
                    == ("rate_64", peer.name, "echo", transport, era)
                ),
                None,
            )
            if found is not None:
                rows.append((f"{peer.title}, {'2026-07-28' if era == MODERN else 'legacy'}", found))
    return rows


def _group(body: list[str], title: str, rows: list[tuple[str, Figure]], y: int) -> int:
    most = max(figure.value for _, figure in rows)
    _, first = rows[0]
    rounds = f"medians of {first.rounds} rounds of {first.seconds:.1f} s"
    body.append(_text(16, y, f"{title}: tools/call per second, {rounds}", "title"))
    y += 12
    limit = {figure.era: figure.value for _, figure in rows if figure.peer == "limit"}
    for label, figure in rows:
        length = max(2.0, (WIDTH - LABEL - ROOM) * figure.value / most)
        colour = COLOURS.get(figure.peer, OTHER)
        body.append(_text(16, y + 15, label, "label"))
        body.append(f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR}" rx="3" fill="{colour}"/>')
        value = f"{figure.value:,.0f}"
        body.append(_text(LABEL + length + 8, y + 15, value, "value"))
        end = LABEL + length + 16 + 8 * len(value)
        body.append(_text(end, y + 15, _sample(figure, limit.get(figure.era)), "note"))
        y += BAR + GAP
    return y + 30


def _sample(figure: Figure, limit: float | None) -> str:
    """Over how many calls a bar was measured, and what share of the limit it is."""
    words = f"{figure.calls:,} calls a round"
    if limit and figure.peer != "limit":
        words += f", {figure.value / limit:.2g}× the limit"
    return words


def _head(height: int) -> str:
    style = (
        "text{font:13px system-ui,sans-serif;fill:#1f2937}.title{font-weight:600;font-size:15px}"
        ".note{font-size:10px;fill:#6b7280}.name{font-weight:700;font-size:18px}.value{font-weight:600}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="Calls per second of Dovetail, other libraries and the limit">\n'
        f"<style>{style}</style>\n"
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        + _text(16, 28, "The same small tool, the same driver, one run", "name")
    )


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>'
