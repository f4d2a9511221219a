"""Every metric there is, what it means and how the numbers of several processes become one."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

NAMES: Final = 1000
"""Tools, prompts and resources with numbers of their own; the rest are counted together."""
SERIES: Final = 256
"""Sets of labels of any other metric; the rest are counted together."""
BUCKETS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""The upper ends of the buckets of every histogram, in seconds."""


Kind = Literal["counter", "gauge", "histogram"]
Together = Literal["sum", "max", "min"]
"""How the numbers of several workers become one."""


class Family(Struct, frozen=True, kw_only=True):
    """One metric."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    together: Together = "sum"
    most: int = SERIES
    """How many sets of labels are told apart."""
    rest: float = 0.0
    """What a gauge is when nobody speaks of it any more."""

    @property
    def width(self) -> int:
        """Numbers of one series: a histogram has its buckets, the one above them all, and the sum."""
        return len(BUCKETS) + 2 if self.kind == "histogram" else 1

    @property
    def outlives(self) -> bool:
        """Whether what a dead worker has counted still counts."""
        return self.kind != "gauge"


def _counter(name: str, help: str, *labels: str, most: int = SERIES) -> Family:
    return Family(name=name, kind="counter", help=help, labels=labels, most=most)


def _gauge(name: str, help: str, *labels: str, together: Together = "sum", most: int = SERIES) -> Family:
    return Family(name=name, kind="gauge", help=help, labels=labels, together=together, most=most)


def _histogram(name: str, help: str, *labels: str, most: int = SERIES) -> Family:
    return Family(name=name, kind="histogram", help=help, labels=labels, most=most)


_ALL: Final = (
    _counter("dovetail_calls_total", "Requests answered, by outcome.", "method", "name", "outcome", most=7 * NAMES),
    _histogram("dovetail_call_seconds", "How long requests took.", "method", "name", most=NAMES + SERIES),
    _gauge("dovetail_in_flight", "Requests and tasks being worked on; open listen streams are not among them."),
    _counter("dovetail_refusals_total", "Requests refused by a guard or a limit, or as they came in.", "code"),
    _counter("dovetail_violations_total", "Messages that break the protocol, by what is wrong.", "kind"),
    _counter("dovetail_notifications_dropped_total", "Notifications that could not be delivered.", "method"),
    _counter(
        "dovetail_arguments_coerced_total", "Calls whose arguments fitted only after coercion.", "name", most=NAMES
    ),
    _gauge("dovetail_sessions", "Legacy sessions held in memory."),
    _gauge("dovetail_streams", "Open event streams and WebSockets."),
    _gauge("dovetail_subscriptions", "Resources that clients have subscribed to."),
    _counter("dovetail_reconnects_total", "Streams that clients came back for, and connections made again."),
    _gauge("dovetail_queue", "Calls that wait for a place.", "queue"),
    _gauge(
        "dovetail_circuit_breaker_state", "Circuits: 0 closed, 1 half open, 2 open.", "name", together="max", most=NAMES
    ),
    _counter("dovetail_cache_hits_total", "Calls answered by the Caching middleware."),
    _counter("dovetail_cache_misses_total", "Calls the Caching middleware let through."),
    _histogram("dovetail_store_seconds", "How long the store took.", "verb"),
    _counter("dovetail_store_failures_total", "Uses of the store that raised.", "verb"),
    _counter("dovetail_client_workarounds_total", "Rules bent for clients known to break them.", "name"),
    Family(
        name="dovetail_component_ok", kind="gauge", help="Components of health: 1 ok, 0 not.", labels=("name",),
        together="min", rest=1.0,
    ),
    _gauge("dovetail_workers", "Processes that serve."),
)  # fmt: skip
FAMILIES: Final = {family.name: family for family in _ALL}
"""Name → metric, in the order they are shown."""
