"""Write metrics as text, in the formats of Prometheus and OpenMetrics 1.0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from .metric_definitions import BUCKETS, FAMILIES, MetricFamily
from .shared_registry import Labels, Numbers

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_ESCAPES: Final = {
    **dict.fromkeys(range(32), "�"),  # no control characters
    ord("\n"): "\\n",
    ord("\\"): "\\\\",
    ord('"'): '\\"',
}
_LIMITS: Final = (*(repr(limit) for limit in BUCKETS), "+Inf")


def wants_openmetrics(accept: str) -> bool:
    """Return whether an ``Accept`` header prefers OpenMetrics to plain text."""
    weights = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for part in accept.lower().split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        if media in weights:
            weights[media] = max(weights[media], _weight(parameters))
    return weights["application/openmetrics-text"] > weights["text/plain"]


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def write(numbers: Iterable[Numbers], *, openmetrics: bool = False) -> bytes:
    """Return the text of all ``numbers``, each series once. Metrics without values have a header, too."""
    found: dict[str, list[Numbers]] = {}
    for one in numbers:
        found.setdefault(one.family, []).append(one)
    lines: list[str] = []
    for name, family in FAMILIES.items():
        # OpenMetrics: the name of a counter is its name without ``_total``.
        shown = name.removesuffix("_total") if openmetrics else name
        lines += [f"# HELP {shown} {family.help}", f"# TYPE {shown} {family.kind}"]
        for one in sorted(found.get(name, ()), key=lambda one: one.labels):
            lines += _lines(family, one)
    if openmetrics:
        lines.append("# EOF")
    return ("\n".join(lines) + "\n").encode(errors="replace")


def _lines(family: MetricFamily, one: Numbers) -> Iterator[str]:
    if family.kind != "histogram":
        yield f"{family.name}{_labels(family, one.labels)} {_number(one.values[0])}"
        return
    count = 0.0
    for limit, value in zip(_LIMITS, one.values, strict=False):
        count += value
        yield f"{family.name}_bucket{_labels(family, one.labels, limit)} {_number(count)}"
    yield f"{family.name}_sum{_labels(family, one.labels)} {_number(one.values[-1])}"
    yield f"{family.name}_count{_labels(family, one.labels)} {_number(count)}"


def _labels(family: MetricFamily, labels: Labels, limit: str | None = None) -> str:
    pairs = [
        f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(family.labels, labels, strict=True)
    ]
    if limit is not None:
        pairs.append(f'le="{limit}"')
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _number(value: float) -> str:
    return f"{value:.0f}" if value.is_integer() else repr(value)
