"""Export the metrics of this process to OpenTelemetry, if the program has set a meter provider.

Each metric is an observable instrument of the same name in OpenTelemetry's spelling: ``dovetail_calls_total`` is
``dovetail.calls``. A histogram is exported as its count and its sum. `tracing.Tracing` also records the
duration of calls as ``mcp.server.operation.duration``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable

from opentelemetry import metrics

from ..server import Server
from .metric_definitions import FAMILIES, MetricFamily
from .metrics import Metrics
from .tracing import SCOPE, is_set


def export(server: Server) -> None:
    """Register the metrics of ``server`` with the meter provider; only once for each server."""
    provider = metrics.get_meter_provider()
    if not is_set(provider) or server.metrics.exported:
        return
    server.metrics.exported = True
    meter, ours = metrics.get_meter(SCOPE, meter_provider=provider), weakref.ref(server.metrics)
    for family in FAMILIES.values():
        name, help = family.name.removesuffix("_total").replace("_", ".", 1), family.help
        if family.kind == "gauge":
            meter.create_observable_gauge(name, [_observe(ours, family, _first)], description=help)
        elif family.kind == "counter":
            meter.create_observable_counter(name, [_observe(ours, family, _first)], description=help)
        else:
            meter.create_observable_counter(
                f"{name}.count", [_observe(ours, family, _count)], description=help
            )
            meter.create_observable_counter(f"{name}.sum", [_observe(ours, family, _last)], "s", help)


def _first(values: list[float]) -> float:
    return values[0]


def _last(values: list[float]) -> float:
    return values[-1]


def _count(values: list[float]) -> float:
    return sum(values[:-1])


def _observe(
    ours: weakref.ref[Metrics], family: MetricFamily, value: Callable[[list[float]], float]
) -> Callable[[metrics.CallbackOptions], Iterable[metrics.Observation]]:
    def observe(options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        found = ours()
        for one in () if found is None else found.own(family.name):
            yield metrics.Observation(value(one.values), dict(zip(family.labels, one.labels, strict=True)))

    return observe
