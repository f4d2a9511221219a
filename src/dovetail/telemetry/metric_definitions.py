"""The table of metrics: name, help text, labels, and how values of several processes are combined."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

NAMES: Final = 1000
"""The most tools, prompts and resources with separate series; the others share one series."""
SERIES: Final = 256
"""The most label sets of any other metric; the others share one series."""
BUCKETS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""The upper ends of the buckets of every histogram, in seconds."""


Kind = Literal["counter", "gauge", "histogram"]
Together = Literal["sum", "max", "min"]
"""How the values of several workers are combined."""


class MetricFamily(Struct, frozen=True, kw_only=True):
    """One metric."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    together: Together = "sum"
    most: int = SERIES
    """The most label sets."""
    rest: float = 0.0
    """The value of a gauge without a source."""

    @property
    def width(self) -> int:
        """The number of cells of one series: a histogram has its buckets, the +Inf bucket, and the sum."""
        return len(BUCKETS) + 2 if self.kind == "histogram" else 1

    @property
    def outlives(self) -> bool:
        """Whether values of dead workers are still included."""
        return self.kind != "gauge"


def _counter(name: str, help: str, *labels: str, most: int = SERIES) -> MetricFamily:
    return MetricFamily(name=name, kind="counter", help=help, labels=labels, most=most)


def _gauge(
    name: str, help: str, *labels: str, together: Together = "sum", most: int = SERIES
) -> MetricFamily:
    return MetricFamily(name=name, kind="gauge", help=help, labels=labels, together=together, most=most)


def _histogram(name: str, help: str, *labels: str, most: int = SERIES) -> MetricFamily:
    return MetricFamily(name=name, kind="histogram", help=help, labels=labels, most=most)


_ALL: Final = (
    _counter("dovetail_calls_total", "Completed requests, by outcome.", "method", "name", "outcome", most=7 * NAMES),
    _histogram("dovetail_call_seconds", "Duration of requests in seconds.", "method", "name", most=NAMES + SERIES),
    _gauge("dovetail_in_flight", "Running requests and tasks, without open listen streams."),
    _counter("dovetail_refusals_total", "Refused requests, by code.", "code"),
    _counter("dovetail_violations_total", "Messages that violate the protocol, by kind.", "kind"),
    _counter("dovetail_notifications_dropped_total", "Notifications that could not be delivered.", "method"),
    _counter(
        "dovetail_arguments_coerced_total", "Calls whose arguments fitted only after coercion.", "name", most=NAMES
    ),
    _gauge("dovetail_sessions", "Legacy sessions in memory."),
    _gauge("dovetail_streams", "Open event streams and WebSockets."),
    _gauge("dovetail_subscriptions", "Resource subscriptions of clients."),
    _counter("dovetail_reconnects_total", "Resumed streams and reopened connections."),
    _gauge("dovetail_queue", "Calls that wait in a queue.", "queue"),
    _gauge(
        "dovetail_circuit_breaker_state", "Circuits: 0 closed, 1 half open, 2 open.", "name", together="max", most=NAMES
    ),
    _counter("dovetail_cache_hits_total", "Cache hits of the Caching middleware."),
    _counter("dovetail_cache_misses_total", "Cache misses of the Caching middleware."),
    _histogram("dovetail_store_seconds", "Duration of store operations in seconds.", "verb"),
    _counter("dovetail_store_failures_total", "Failed store operations.", "verb"),
    _counter("dovetail_client_workarounds_total", "Applied client workarounds.", "name"),
    MetricFamily(
        name="dovetail_component_ok", kind="gauge", help="Health of components: 1 healthy, 0 not.", labels=("name",),
        together="min", rest=1.0,
    ),
    _gauge("dovetail_workers", "Serving processes."),
)  # fmt: skip
FAMILIES: Final = {family.name: family for family in _ALL}
"""Name → metric, in the order of the output."""
