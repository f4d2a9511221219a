"""`Health`: readiness of a server, from checks of its components and from its event loop and memory.

```python
server.health.add("db", check, interval=30, timeout=5, failure_threshold=3)
```

A check is a plain or async function. It fails by raising, by returning False, or by taking longer than
``timeout`` seconds. After ``failure_threshold`` consecutive failures its component is not ok and ``/readyz``
answers 503, so that a load balancer sends new clients to other servers. One success makes it ok again.
Exceptions of a check only go to the log.

The server itself watches the event loop (``loop``), memory if it is limited (``memory``), and the store
(``store``). Under severe overload, calls are refused, always later than readiness drops: 1078 if the event
loop lags more than `Limits.max_event_loop_lag`, 1089 with 95 % of the memory used, 1087 if a ``required``
component has failed twice as often as allowed. Cheap requests (lists, pings, task status) are still answered.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

from ..core.channel import Call
from ..drivers.heartbeat import repeat
from ..drivers.thread_pool import ThreadPool
from ..errors import RETRY_AFTER_MS, ProtocolError
from ..settings import Limits
from .event_loop_monitor import LOOP_BLOCKED_THRESHOLD, EventLoopMonitor
from .memory_usage import Memory, memory

HEALTH_CHECK_INTERVAL: Final = 30.0
"""erlmcp: seconds between two checks of a component."""
HEALTH_CHECK_TIMEOUT: Final = 5.0
"""erlmcp: seconds that one check may take."""
HEALTH_FAILURE_THRESHOLD: Final = 3
"""erlmcp: failures in a row until a component is not ok."""
MAX_HEALTH_THREADS: Final = 8
"""Threads for checks that are plain functions."""
HEALTH_URI: Final = "health://server"
"""erlmcp: the resource that has the health of the server."""
LOOP_LAG_THRESHOLD: Final = 3
"""Checks in a row that find the event loop late until the server is not ready."""
MEMORY_NOT_READY_RATIO: Final = 0.85
"""The fraction of the memory limit from which on the server is not ready."""
MEMORY_REFUSE_RATIO: Final = 0.95
"""The fraction of the memory limit from which on calls are refused."""


log = logging.getLogger("dovetail.health")

Check = Callable[[], Any]
Status = Literal["ready", "degraded"]

LIGHT: Final = frozenset({
    "initialize", "server/discover", "ping", "logging/setLevel", "tools/list", "prompts/list", "resources/list",
    "resources/templates/list", "resources/unsubscribe", "tasks/get", "tasks/result", "tasks/list", "tasks/cancel",
})  # fmt: skip
"""Methods that are answered in every state of the server."""


class MonitoredServer(Protocol):
    """The part of the server that `Health` uses."""

    @property
    def limits(self) -> Limits: ...

    def refuse_with(self, check: Callable[[Call], None] | None) -> None:
        """Have ``check`` raise for every call that is not to be executed now; None serves all again."""
        ...

    def notify_updated(self, uri: str) -> None:
        """Notify the subscribers of ``uri``, in this process only."""
        ...

    def add_resource(self, uri: str, function: Callable[..., Any], **options: Any) -> object: ...


class HealthComponent(Struct, eq=False, kw_only=True):
    """A component that is checked periodically."""

    name: str
    check: Check
    every: float
    limit: float
    tolerated: int
    required: bool = False
    failures: int = 0
    """Consecutive failures."""
    ok: bool = True
    took: float | None = None
    """Duration of the last check in seconds; None before the first one."""
    looking: asyncio.Future[Any] | None = None
    """A plain check function that still runs."""

    @property
    def refusal(self) -> str | None:
        return "unhealthy" if self.required and self.failures >= 2 * self.tolerated else None

    def describe(self) -> dict[str, Any]:
        """Return the public status. It never contains the exception of a check."""
        seen = {} if self.took is None else {"ms": round(self.took * 1000, 1)}
        return {"ok": self.ok, "failures": self.failures, **seen}


class ResourceGauge(Struct, eq=False):
    """A measured resource: event loop lag or memory."""

    name: str
    unit: str
    most: float
    """Above this value the server is not ready."""
    far: float | None
    """Above this value calls are refused; None: never."""
    kind: str
    looks: int
    """Consecutive measurements above the value before it takes effect."""
    value: float = 0.0
    over: int = 0
    beyond: int = 0

    def record(self, value: float) -> None:
        self.value = value
        self.over = self.over + 1 if value > self.most else 0
        self.beyond = self.beyond + 1 if self.far is not None and value > self.far else 0

    @property
    def ok(self) -> bool:
        return self.over < self.looks

    @property
    def refusal(self) -> str | None:
        # One measurement more than readiness needs: readiness drops first.
        return self.kind if self.beyond > self.looks else None

    def describe(self) -> dict[str, Any]:
        return {"ok": self.ok, self.unit: round(self.value * (1000 if self.unit == "ms" else 1), 3)}


class ReportedStatus(Struct, eq=False):
    """A component whose status is reported by other code: an upstream with a circuit breaker."""

    name: str
    ok: bool
    refusal: None = None

    def describe(self) -> dict[str, Any]:
        return {"ok": self.ok}


class Health:
    """The components of one server. They are checked while the server runs."""

    def __init__(self, server: MonitoredServer) -> None:
        self._server = server
        self.components: dict[str, HealthComponent] = {}
        self._gauges: dict[str, ResourceGauge] = {}
        self._reports: dict[str, ReportedStatus] = {}
        self._memory: Memory | None = None
        self.monitor = EventLoopMonitor(self._measured)
        self.log_blocking = False
        """Whether a thread logs the stack of code that blocks the event loop. Set it before the server
        starts.
        """
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._running = False
        self._refusal: str | None = None
        self._last_status: Status = "ready"
        self._uri: str | None = None

    def add(
        self,
        name: str,
        check: Check,
        *,
        interval: float = HEALTH_CHECK_INTERVAL,
        timeout: float = HEALTH_CHECK_TIMEOUT,
        failure_threshold: int = HEALTH_FAILURE_THRESHOLD,
        required: bool = False,
    ) -> None:
        """Check a component every ``interval`` seconds; a check that takes longer than ``timeout`` has
        failed.

        After ``failure_threshold`` consecutive failures the component is not ok. After as many more, calls
        are refused with 1087 if it is ``required``.

        Raises:
            ValueError: the name is in use, or a number is out of range.
        """
        if name in self.components:
            raise ValueError(f"health component {name!r} already exists; use another name")
        if interval <= 0 or timeout <= 0 or failure_threshold < 1:
            raise ValueError("interval and timeout must be more than 0 seconds, failure_threshold at least 1")
        component = HealthComponent(
            name=name,
            check=check,
            every=interval,
            limit=timeout,
            tolerated=failure_threshold,
            required=required,
        )
        self.components[name] = component
        if self._running:
            self._watch(component)

    def remove(self, name: str) -> None:
        """Remove a component."""
        self.components.pop(name, None)
        self._reports.pop(name, None)
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
        self._update_status()

    def report(self, name: str, *, ok: bool) -> None:
        """Report the status of a component that other code watches. A component that is ok is removed."""
        if ok:
            self._reports.pop(name, None)
        else:
            self._reports[name] = ReportedStatus(name, ok)
        self._update_status()

    def publish(self, uri: str = HEALTH_URI) -> None:
        """Publish the status as the resource ``health``, which clients can read and subscribe to.

        Raises:
            RegistrationError: the URI is in use.
        """
        self._server.add_resource(uri, self.read, name="health", mime_type="application/json")
        self._uri = uri

    async def read(self) -> dict[str, Any]:
        """Return the status as ``/readyz`` does, except for a shutdown."""
        return {"status": self.status, "components": self.describe()}

    @property
    def status(self) -> Status:
        return "ready" if all(one.ok for one in self._all()) else "degraded"

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return the public status of every component."""
        return {one.name: one.describe() for one in self._all()}

    def _all(self) -> Iterable[HealthComponent | ResourceGauge | ReportedStatus]:
        return *self.components.values(), *self._gauges.values(), *self._reports.values()

    # --- checks
    # -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the checks, if they do not run."""
        if self._running:
            return
        self._running = True
        limits = self._server.limits
        self._gauges = {
            "loop": ResourceGauge(
                "loop",
                "ms",
                LOOP_BLOCKED_THRESHOLD,
                limits.max_event_loop_lag,
                "overloaded",
                LOOP_LAG_THRESHOLD,
            )
        }
        self._memory = memory(limits.max_memory_bytes)
        if self._memory is not None:
            self._gauges["memory"] = ResourceGauge(
                "memory", "used", MEMORY_NOT_READY_RATIO, MEMORY_REFUSE_RATIO, "memory_exhausted", 1
            )
        self.monitor.start(watchdog=self.log_blocking)
        for component in self.components.values():
            self._watch(component)

    async def stop(self) -> None:
        """Stop the checks."""
        self._running = False
        self.monitor.stop()
        self._gauges = {}
        self._update_status()
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _measured(self, late: float) -> bool:
        """Record the event loop lag. Return whether to keep measuring, because a resource is over its limit."""
        vitals = self._gauges
        if vitals:
            vitals["loop"].record(late)
        if self._memory is not None and "memory" in vitals:
            vitals["memory"].record(self._memory.used())
        self._update_status()
        return any(vital.over for vital in vitals.values())

    def _watch(self, component: HealthComponent) -> None:
        if component.name not in self._tasks:
            self._tasks[component.name] = asyncio.get_running_loop().create_task(
                self._run_repeatedly(component)
            )

    async def _run_repeatedly(self, component: HealthComponent) -> None:
        await self._run_check(component)
        await repeat(component.every, partial(self._run_check, component))

    async def _run_check(self, component: HealthComponent) -> None:
        begun = time.monotonic()
        good = await _passes(component)
        component.took = time.monotonic() - begun
        component.failures = 0 if good else component.failures + 1
        ok = good or (component.ok and component.failures < component.tolerated)
        if ok != component.ok:
            component.ok = ok
            log.warning(
                "health component changed name=%r status=%s", component.name, "ok" if ok else "failed"
            )
        self._update_status()

    # --- status
    # -----------------------------------------------------------------------------------------------------

    def _update_status(self) -> None:
        status = self.status
        if status != self._last_status:
            self._last_status = status
            log.warning(
                "server status changed status=%s failed=%s",
                status,
                ", ".join(o.name for o in self._all() if not o.ok) or "none",
            )
            if self._uri is not None:
                self._server.notify_updated(self._uri)
        refusal = next((one.refusal for one in self._all() if one.refusal is not None), None)
        if refusal != self._refusal:
            self._refusal = refusal
            self._refuse_calls() if refusal is not None else self._accept_calls()

    def _refuse_calls(self) -> None:
        """Refuse requests that run code. A healthy server does not pay for this check."""
        log.error("calls refused reason=%s", self._refusal)
        self._server.refuse_with(self._check)

    def _accept_calls(self) -> None:
        log.warning("calls accepted again")
        self._server.refuse_with(None)

    def _check(self, call: Call) -> None:
        """Refuse the request. Raises: ProtocolError."""
        own = self._uri is not None and call.method == "resources/read" and call.params.uri == self._uri
        if call.method not in LIGHT and not own:
            raise ProtocolError(self._refusal or "unhealthy", data={"retryAfterMs": RETRY_AFTER_MS})


_THREADS = ThreadPool(MAX_HEALTH_THREADS)
"""Daemon threads: a hanging check does not block the exit of the process."""


async def _passes(component: HealthComponent) -> bool:
    """Run the check once. It never raises."""
    try:
        async with asyncio.timeout(component.limit):
            if inspect.iscoroutinefunction(component.check):
                return await component.check() is not False
            # A hanging plain function keeps its thread: do not start it again meanwhile.
            if component.looking is None or component.looking.done():
                component.looking = asyncio.ensure_future(_THREADS.run(component.check))
            found = await asyncio.shield(component.looking)
            return (await found if inspect.isawaitable(found) else found) is not False
    except TimeoutError:
        log.warning("health check timed out name=%r timeout=%gs", component.name, component.limit)
    except Exception:
        log.warning("health check failed name=%r", component.name, exc_info=True)
    return False
