"""The ratios that were promised before anything was built, and whether this run meets them.

The rows of the area "scale" are limits of this benchmark, for "does not grow".
A bound is never moved to fit a run; a miss stays a miss until another run, or another version, keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .peers import LEGACY, MODERN
from .samples import Figures


class Target(NamedTuple):
    """A promise: a value computed from the figures, and the bound it has to keep."""

    area: str
    text: str
    value: Callable[[Figures], float | None]
    bound: float
    most: bool
    """True: at most the bound. False: at least."""
    unit: str = "×"


class Verdict(NamedTuple):
    target: Target
    value: float | None
    met: bool | None

    @property
    def short_by(self) -> float:
        """By how many percent the bound is missed."""
        assert self.value is not None
        bound = self.target.bound
        return (self.value / bound - 1) * 100 if self.target.most else (1 - self.value / bound) * 100


def ratio(one: tuple[str, ...], other: tuple[str, ...]) -> Callable[[Figures], float | None]:
    """The figure ``one`` over the figure ``other``."""

    def value(figures: Figures) -> float | None:
        first, second = figures.value(*one), figures.value(*other)
        return None if first is None or not second else first / second

    return value


def alone(*one: str) -> Callable[[Figures], float | None]:
    return lambda figures: figures.value(*one)


def grown(
    measure: str, peer: str, small: str, large: str, transport: str
) -> Callable[[Figures], float | None]:
    """How a cost has grown from ``small`` to ``large``, by the lowest round of each.

    Other work of the machine only adds to a cost, and adds more than the measured effect.
    """

    def value(figures: Figures) -> float | None:
        lowest = [figures.lowest(measure, peer, workload, transport) for workload in (small, large)]
        return None if lowest[0] is None or lowest[1] is None else lowest[1] / lowest[0]

    return value


def _hop(peer: str, era: str) -> Callable[[Figures], float | None]:
    """What a hop adds to the median round trip."""

    def value(figures: Figures) -> float | None:
        way = [
            figures.value("latency_p50", peer, f"echo, {how}", "http", era) for how in ("one hop", "direct")
        ]
        return None if way[0] is None or way[1] is None else way[0] - way[1]

    return value


def _stdio(measure: str, peer: str) -> tuple[str, ...]:
    return (measure, peer, "echo", "stdio", LEGACY)


def _http(measure: str, peer: str, era: str) -> tuple[str, ...]:
    return (measure, peer, "echo", "http", era)


def _client(transport: str, measure: str) -> Callable[[Figures], float | None]:
    """The era in which we are less far ahead counts."""
    ratios = [
        ratio((measure, "dovetail", "echo", transport, era), (measure, "sdk", "echo", transport, era))
        for era in (LEGACY, MODERN)
    ]

    def value(figures: Figures) -> float | None:
        found = [one for one in (each(figures) for each in ratios) if one is not None]
        return min(found) if found else None

    return value


TARGETS = (
    Target(
        "server",
        "stdio, one by one: median round trip against the bare loop",
        ratio(_stdio("latency_p50", "dovetail"), _stdio("latency_p50", "limit")),
        1.5,
        True,
    ),
    Target(
        "server",
        "stdio, 64 in flight: share of the bare loop's rate",
        alone(*_stdio("share_64", "dovetail")),
        0.55,
        False,
    ),
    Target(
        "server",
        "stdio, 64 in flight: rate against the official SDK",
        ratio(_stdio("rate_64", "dovetail"), _stdio("rate_64", "sdk")),
        25.0,
        False,
    ),
    Target(
        "server",
        "start to first answer against the official SDK",
        ratio(("start", "dovetail", "", "stdio"), ("start", "sdk", "", "stdio")),
        0.25,
        True,
    ),
    Target(
        "server",
        "resident memory against the official SDK",
        ratio(("memory", "dovetail", "", "stdio"), ("memory", "sdk", "", "stdio")),
        0.5,
        True,
    ),
    *(
        Target(
            "server",
            f"{what} against the official SDK, 105 tools, {transport}",
            ratio(
                (measure, "dovetail", f"{workload} with 105 tools", transport),
                (measure, "sdk", f"{workload} with 105 tools", transport),
            ),
            bound,
            True,
        )
        for transport in ("stdio", "http")
        for measure, what, workload, bound in (
            ("start", "start to first answer", "initialize", 0.18 if transport == "http" else 0.22),
            ("memory", "resident memory", "at rest", 0.45),
        )
    ),
    *(
        Target("gateway", f"one hop, p50, {front}", _hop("dovetail", era), 400.0, True, "µs")
        for front, era in (("2026-07-28", MODERN), ("legacy session", LEGACY))
    ),
    Target("server", "server.handle: CPU per call", alone("handle", "dovetail"), 40.0, True, "µs"),
    *(
        Target(
            "http",
            f"{connections}, {name}: rate against the official SDK",
            ratio(_http(measure, "dovetail", era), _http(measure, "sdk", era)),
            10.0,
            False,
        )
        for connections, measure in (("64 connections", "rate_64"), ("one connection", "rate_1"))
        for name, era in (("2026-07-28", MODERN), ("legacy session", LEGACY))
    ),
    *(
        Target(
            "http",
            f"rate limit, concurrency, metrics and health on, {name}: share of the rate without",
            ratio(
                ("rate_64", "dovetail", "echo, guarded", "http", era),
                ("rate_64", "dovetail", "echo, bare", "http", era),
            ),
            0.85,
            False,
        )
        for name, era in (("2026-07-28", MODERN), ("legacy session", LEGACY))
    ),
    *(
        Target(
            "http",
            f"64 connections, {word}: verified calls against open ones",
            ratio(
                ("rate_64", "dovetail", "echo, verified", "http", era),
                ("rate_64", "dovetail", "echo, open", "http", era),
            ),
            0.80,
            False,
        )
        for word, era in (("2026-07-28", MODERN), ("legacy session", LEGACY))
    ),
    Target(
        "http",
        "an idle legacy session",
        alone("memory_session", "dovetail", "1000 idle sessions"),
        8.0,
        True,
        "KiB",
    ),
    Target("http", "an open listen stream", alone("memory_stream", "dovetail"), 40.0, True, "KiB"),
    Target(
        "state", "news to 1,000 listeners on 4 workers, p99", alone("news_p99", "dovetail"), 50.0, True, "ms"
    ),
    Target(
        "state",
        "the start of a task on SQLite",
        alone("task_start", "dovetail"),
        1000.0,
        True,
        "µs of CPU",
    ),
    Target(
        "client",
        "stdio, one by one: rate against the official client",
        _client("stdio", "client_rate_1"),
        2.0,
        False,
    ),
    Target(
        "client",
        "stdio, 64 at once: rate against the official client",
        _client("stdio", "client_rate_64"),
        6.0,
        False,
    ),
    Target(
        "client",
        "HTTP, one by one: rate against the official client",
        _client("http", "client_rate_1"),
        3.0,
        False,
    ),
    Target(
        "client",
        "HTTP, 64 at once: rate against the official client",
        _client("http", "client_rate_64"),
        6.0,
        False,
    ),
    Target("client", "tasks of an open client", alone("client_tasks", "dovetail"), 1.0, True, "tasks"),
    Target(
        "scale",
        "CPU of a call with 1,000 tools against 1",
        grown("cpu", "dovetail", "echo with 1 tool", "echo with 1000 tools", "stdio"),
        1.2,
        True,
    ),
    Target(
        "scale",
        "round trip beside 10,000 sessions against 1",
        grown("latency_p50", "dovetail", "echo beside 1 session", "echo beside 10000 sessions", "http"),
        1.2,
        True,
    ),
)


def verdicts(figures: Figures) -> list[Verdict]:
    found: list[Verdict] = []
    for target in TARGETS:
        value = target.value(figures)
        met = None if value is None else value <= target.bound if target.most else value >= target.bound
        found.append(Verdict(target, value, met))
    return found
