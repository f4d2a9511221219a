"""`Metrics`: the metrics of a server, for ``/metrics`` and for programs.

```python
app = server.asgi(metrics=True)  # or `dovetail run server.py --http --metrics`, or DOVETAIL_METRICS=1
server.metrics.read("dovetail_calls_total", outcome="ok")
```

The first access to `Server.metrics` creates it and starts to count calls. `metric_definitions.py` lists the metrics.
With several processes, each has a `shared_registry`, and any of them reports the values of all.
"""

from __future__ import annotations

import logging
import os
import sys
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw, Struct

from ..core.endpoint import STREAMS
from ..drivers.middleware_chain import Middleware, Next, Request
from ..errors import NAME_ECHO, DovetailError, RemoteProtocolError
from ..middleware.call_outcome import Outcome, code_of, of_error, of_result
from ..model import CallToolResult
from ..server import Server
from .exposition import write
from .metric_definitions import BUCKETS, FAMILIES, NAMES
from .shared_registry import OTHER, Labels, MetricRegistry, Numbers, enter, gather, merge

if TYPE_CHECKING:
    from .events import TelemetryEvent

log = logging.getLogger("dovetail.metrics")

Source = Callable[[], Iterable[tuple[str, Labels, float]]]
"""A metric that is read when it is needed: its name, labels and value."""

_TASK: Final = "task"
_CALL: Final = "tools/call"
_NAMED: Final = frozenset({_CALL, _TASK, "prompts/get"})
_READ: Final = "resources/read"
_CALLS, _SECONDS = FAMILIES["dovetail_calls_total"], FAMILIES["dovetail_call_seconds"]
_SUM: Final = len(BUCKETS) + 1
_VERBS: Final = ("get", "put", "delete", "append", "scan", "lease", "publish")


class _Counted(Struct, eq=False):
    """The series of one tool, prompt, resource or method."""

    method: str
    name: str
    ok: int
    seconds: int


class Metrics(Middleware):
    """The metrics of one server and all of its workers."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._sources: list[Source] = [self._look_at_server]
        self._shown: set[tuple[str, Labels]] = set()
        """The gauges that the sources reported last time."""
        self._folder: str | None = None
        self._timed_store: Any = None
        self._tools: dict[str, _Counted] = {}
        self.exported = False
        """Whether OpenTelemetry reads the metrics, too."""
        self._begin(MetricRegistry())
        if sys.platform != "win32":
            ours = weakref.WeakMethod(self.forked)
            os.register_at_fork(after_in_child=lambda: (begin := ours()) and begin())

    def _begin(self, table: MetricRegistry) -> None:
        self._table = table
        self._cells = table.cells
        self._known: dict[tuple[str, str], _Counted] = {}
        """Series by name; only registered names are stored. `_tools` are those of ``tools/call``."""
        self._tools.clear()
        self._counted: dict[tuple[str, str], _Counted] = {}
        self._in_flight = 0
        self.set("dovetail_workers", 1)
        for name in ("dovetail_sessions", "dovetail_streams"):
            self.set(name, 0)

    # --- several processes -----------------------------------------------------------------------------------

    def join(self, folder: str) -> None:
        """Share the metrics with all processes that use the same folder, from now on.

        If the folder cannot be used, the process reports only its own metrics and logs a warning.
        """
        self._folder = folder
        try:
            table = enter(folder)
        except OSError as error:
            log.warning("metrics are not shared: %s cannot be used: %s", folder, error)
            self._folder = None
            return
        self._table.close()
        self._begin(table)

    def forked(self) -> None:
        """Reset all metrics after a fork."""
        self._table.close()
        self._begin(MetricRegistry())

    # --- counting --------------------------------------------------------------------------------------------

    def count(self, name: str, *labels: str, by: float = 1.0) -> None:
        """Increase a counter."""
        self._cells[self._table.place(FAMILIES[name], labels)] += by

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge."""
        self._cells[self._table.place(FAMILIES[name], labels)] = value

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        """Add a value to a histogram."""
        at, cells = self._table.place(FAMILIES[name], labels), self._cells
        cells[at + bisect_left(BUCKETS, seconds)] += 1.0
        cells[at + _SUM] += seconds

    def watch(self, source: Source) -> None:
        """Read gauges from ``source`` whenever the metrics are read."""
        self._sources.append(source)

    def wrap(self, call_next: Next) -> Next:
        """Count every request, and the work of a task separately from its call.

        Every call runs this code, so it is written without helper functions.
        """
        tools, first = self._tools, BUCKETS[0]

        async def counted(request: Request) -> Struct | Raw:
            if request.task is not None:
                return await self._count_task(request, call_next)
            call = request.call
            method = call.method
            one = tools.get(request.name) if method == _CALL else self._look_up(method, request.name)
            cells = self._cells
            if method not in STREAMS:
                self._in_flight += 1  # a gauge that is read rarely: a plain integer is cheaper to change
            begun = perf_counter()
            try:
                result = await call_next(request)
                if one is None:
                    one = self._find(method, request.name, answered=True)
                if type(result) is CallToolResult and result.is_error is True:
                    self._ended(one, of_result(result))
                else:
                    cells[one.ok] += 1.0
                return result
            except BaseException as error:
                one = one or self._find(method, request.name, answered=False)
                self._failed(one, error)
                raise
            finally:
                if method not in STREAMS and one is not None:
                    took, at = perf_counter() - begun, one.seconds
                    self._in_flight -= 1
                    cells[at if took <= first else at + bisect_left(BUCKETS, took)] += 1.0
                    cells[at + _SUM] += took

        return counted

    async def _count_task(self, request: Request, call_next: Next) -> Struct | Raw:
        """Count a call until it becomes a task, and then the work of the task."""
        method, name, begun = request.method, request.name, perf_counter()
        counting = not request.resumed
        self._in_flight += 1

        def took(outcome: Outcome) -> None:
            one = self._find(method, name, answered=outcome == "ok")
            self._ended(one, outcome)
            self.observe("dovetail_call_seconds", perf_counter() - begun, one.method, one.name)

        def became_task(id: str) -> None:
            nonlocal method, begun, counting
            if counting:
                took("ok")
            method, begun, counting = _TASK, perf_counter(), True

        request.on_task(became_task)
        try:
            result = await call_next(request)
        except BaseException as error:
            took(outcome := of_error(error))
            if outcome == "refused":
                self.count("dovetail_refusals_total", str(code_of(error)))
            raise
        finally:
            self._in_flight -= 1
        took(of_result(result))
        return result

    def _find(self, method: str, name: str, *, answered: bool) -> _Counted:
        if method not in _NAMED and method != _READ:
            name = ""
        label = self._label(method, name)
        if label is OTHER and answered and self._server.registry.composition is not None:
            # The name belongs to a mounted server that has just responded, so it exists.
            label = _begin(name) if method == _READ else name
            if (method, label) not in self._counted and len(self._counted) >= NAMES // 2:
                label = OTHER
        one = self._counted.get((method, label))
        if one is None:
            if len(self._counted) >= NAMES:
                label = OTHER
            place = self._table.place
            one = _Counted(
                method, label, place(_CALLS, (method, label, "ok")), place(_SECONDS, (method, label))
            )
            self._counted[method, label] = one
        if label == name:
            self._known[method, name] = one
            if method == _CALL:
                self._tools[name] = one
        return one

    def _look_up(self, method: str, name: str) -> _Counted | None:
        return self._known.get((method, name if method in _NAMED or method == _READ else ""))

    def _label(self, method: str, name: str) -> str:
        """Return the label for a name. Only registered names have a label, because clients can send any name."""
        register = self._server.registry
        if method == _READ:
            found = register.find_resource(name)
            return OTHER if found is None else found[0].name
        table = register.prompts if method == "prompts/get" else register.tools
        return name if method not in _NAMED or name in table.entries else OTHER

    def _ended(self, one: _Counted, outcome: Outcome) -> None:
        self.count("dovetail_calls_total", one.method, one.name, outcome)

    def _failed(self, one: _Counted, error: BaseException) -> None:
        outcome = of_error(error)
        self._ended(one, outcome)
        if outcome == "refused":
            self.count("dovetail_refusals_total", str(code_of(error)))

    # --- the `Watcher` of an `Admission` ----------------------------------------------------------------

    def refused(self, error: DovetailError) -> None:
        code = code_of(error)
        self.count("dovetail_refusals_total", error.kind if code is None else str(code))
        if isinstance(error, RemoteProtocolError):
            self.count("dovetail_violations_total", error.kind)

    def violated(self, kind: str, detail: str) -> None:
        self.count("dovetail_violations_total", kind)

    def undelivered(self, method: str) -> None:
        self.count("dovetail_notifications_dropped_total", method)

    def coerced(self, tool: str) -> None:
        self.count("dovetail_arguments_coerced_total", tool)

    def resumed(self) -> None:
        self.count("dovetail_reconnects_total")

    def heard(self, event: TelemetryEvent) -> None:
        """Count events of a client: ``Client(url, on_event=server.metrics.heard)``."""
        if event.name == "transition" and event.data["from"] == "backoff" and event.data["to"] == "starting":
            self.count("dovetail_reconnects_total")

    # --- reading ---------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read all sources, and publish their values to other processes."""
        if self._folder is not None and not self._table.path:
            self.join(self._folder)
        now: list[Numbers] = []
        for source in self._sources:
            try:
                now += [Numbers(name, labels, [float(value)]) for name, labels, value in source()]
            except Exception:
                log.exception("a source of metrics failed")
        now = merge(now)
        shown = {(one.family, one.labels) for one in now}
        for name, labels in self._shown - shown:
            if FAMILIES[name].kind == "gauge":
                self.set(name, FAMILIES[name].rest, *labels)
        for one in now:
            self.set(one.family, one.values[0], *one.labels)
        self._shown = shown

    def _look_at_server(self) -> Iterable[tuple[str, Labels, float]]:
        server = self._server
        yield "dovetail_in_flight", (), self._in_flight
        yield "dovetail_sessions", (), server.subscriptions.hub.sessions
        yield "dovetail_subscriptions", (), server.subscriptions.hub.uri_count
        for queue, waiting in server.lifecycle.runner.waiting().items():
            yield "dovetail_queue", (queue,), waiting
        for component in server.health.components.values():
            yield "dovetail_component_ok", (component.name,), component.ok
        for each in server.middleware:
            if isinstance(each, Middleware):
                yield from each.measure()

    def collect(self) -> list[Numbers]:
        """Return the combined values of all processes, one entry per series."""
        self.refresh()
        numbers = list(self._table.numbers()) if self._folder is None else gather(self._folder)
        return merge(numbers)

    def own(self, metric: str) -> list[Numbers]:
        """Return the value of a metric in this process."""
        self.refresh()
        return [one for one in self._table.numbers() if one.family == metric]

    def text(self, *, openmetrics: bool = False) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return write(self.collect(), openmetrics=openmetrics)

    def read(self, metric: str, /, **labels: str) -> float:
        """Return the sum of a metric over all series with these labels; for a histogram, the count.

        Raises:
            KeyError: the metric does not exist.
        """
        family = FAMILIES[metric]
        return sum(
            sum(one.values[:-1]) if family.kind == "histogram" else one.values[0]
            for one in self.collect()
            if one.family == metric
            and labels.items() <= dict(zip(family.labels, one.labels, strict=True)).items()
        )

    # --- the store -------------------------------------------------------------------------------------------

    def attach(self, service: Any) -> None:
        """Measure store operations, too."""
        store = service.lifecycle.store
        if store is not None and store is not self._timed_store:
            self._timed_store = store
            for verb in _VERBS:
                vars(store)[verb] = self._timed(verb, getattr(store, verb))

    def _timed(self, verb: str, use: Callable[..., Any]) -> Callable[..., Any]:
        async def timed(*args: Any, **options: Any) -> Any:
            begun = perf_counter()
            try:
                return await use(*args, **options)
            except Exception:
                self.count("dovetail_store_failures_total", verb)
                raise
            finally:
                self.observe("dovetail_store_seconds", perf_counter() - begun, verb)

        return timed


def _begin(uri: str) -> str:
    """Return the label of a mounted resource: scheme and first segment, which is the prefix of the mount."""
    scheme, separator, rest = uri.partition("://")
    return f"{scheme}{separator}{rest.partition('/')[0]}"[:NAME_ECHO]


def measured(server: Server) -> Metrics:
    """Start to count the calls of ``server``."""
    metrics = Metrics(server)
    server.dispatcher.pipeline.add(metrics)
    server.dispatcher.admission.watchers += (metrics,)
    return metrics
