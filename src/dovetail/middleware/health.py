"""Whether a server can do its work: what it needs is looked at now and then, and so is the server itself.

```python
server.health.add("db", check, interval=30, timeout=5, failure_threshold=3)
```

A check is a function, plain or async. It fails by raising, by returning False, or by taking longer than ``timeout``
seconds. After ``failure_threshold`` failures in a row its component is not ok, and ``/readyz`` says 503, so that a
balancer sends new clients elsewhere before their calls fail; one success and it is ok again. What a check raised
stays in the log.

Watched without being asked: the event loop (``loop``), memory where there is a limit to it (``memory``), the store
(``store``). When it comes to the worst, calls are refused, always later than readiness drops: 1078 when the loop stays
late by more than `Limits.max_event_loop_lag`, 1089 with 95 % of the memory used, 1087 when a component that is
``required`` has failed twice as often as it may. What costs nothing (lists, pings, the state of tasks) is still
answered.
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
from ..core.subscriptions import SubscriptionHub
from ..drivers.heartbeat import repeat
from ..drivers.thread_pool import ThreadPool
from ..errors import RETRY_AFTER_MS, ProtocolError
from ..settings import Limits
from .event_loop_monitor import LOOP_BLOCKED, EventLoopMonitor
from .memory_usage import Memory, memory, release

HEALTH_EVERY: Final = 30.0
"""erlmcp: seconds between two checks of a component."""
HEALTH_LIMIT: Final = 5.0
"""erlmcp: seconds that one check may take."""
HEALTH_FAILURES: Final = 3
"""erlmcp: failures in a row until a component is not ok."""
HEALTH_THREADS: Final = 8
"""Threads for checks that are plain functions."""
HEALTH_URI: Final = "health://server"
"""erlmcp: the resource that has the health of the server."""
LOOP_LATE: Final = 3
"""Checks in a row that find the event loop late until the server is not ready."""
MEMORY_TIGHT: Final = 0.85
"""The fraction of the memory limit from which on the server is not ready."""
MEMORY_FULL: Final = 0.95
"""The fraction of the memory limit from which on calls are refused."""
MEMORY_RELEASED: Final = 5
"""Checks that find the memory short between two attempts to release some."""


log = logging.getLogger("dovetail.health")

Check = Callable[[], Any]
Status = Literal["ready", "degraded"]

LIGHT: Final = frozenset({
    "initialize", "server/discover", "ping", "logging/setLevel", "tools/list", "prompts/list", "resources/list",
    "resources/templates/list", "resources/unsubscribe", "tasks/get", "tasks/result", "tasks/list", "tasks/cancel",
})  # fmt: skip
"""What is answered whatever the state of the server."""


class Refusing(Protocol):
    """The pipeline of a server, as far as health needs it."""

    def refuse_with(self, check: Callable[[Call], None] | None) -> None: ...


class Watched(Protocol):
    """What health asks of the server it belongs to."""

    pipeline: Refusing
    limits: Limits
    hub: SubscriptionHub

    def add_resource(self, uri: str, function: Callable[..., Any], **options: Any) -> object: ...


class Component(Struct, eq=False, kw_only=True):
    """One thing a server needs."""

    name: str
    check: Check
    every: float
    limit: float
    tolerated: int
    required: bool = False
    failures: int = 0
    """In a row."""
    ok: bool = True
    took: float | None = None
    """Seconds the last look took; None before the first one."""
    looking: asyncio.Future[Any] | None = None
    """A plain function that is still at it."""

    @property
    def refusal(self) -> str | None:
        return "unhealthy" if self.required and self.failures >= 2 * self.tolerated else None

    def told(self) -> dict[str, Any]:
        """What an operator is shown: never what a check raised."""
        seen = {} if self.took is None else {"ms": round(self.took * 1000, 1)}
        return {"ok": self.ok, "failures": self.failures, **seen}


class Vital(Struct, eq=False):
    """One thing that is measured."""

    name: str
    unit: str
    most: float
    """Above it the server is not ready."""
    far: float | None
    """Above it calls are refused; None: never."""
    kind: str
    looks: int
    """How often in a row it is seen above before anything follows."""
    value: float = 0.0
    over: int = 0
    beyond: int = 0

    def see(self, value: float) -> None:
        self.value = value
        self.over = self.over + 1 if value > self.most else 0
        self.beyond = self.beyond + 1 if self.far is not None and value > self.far else 0

    @property
    def ok(self) -> bool:
        return self.over < self.looks

    @property
    def refusal(self) -> str | None:
        # One look more than readiness needs: it drops first.
        return self.kind if self.beyond > self.looks else None

    def told(self) -> dict[str, Any]:
        return {"ok": self.ok, self.unit: round(self.value * (1000 if self.unit == "ms" else 1), 3)}


class Report(Struct, eq=False):
    """What somebody else watches, and says so: an upstream whose circuit is open."""

    name: str
    ok: bool
    refusal: None = None

    def told(self) -> dict[str, Any]:
        return {"ok": self.ok}


class Health:
    """The components of one server. They are watched from the start of the server to its end."""

    def __init__(self, server: Watched) -> None:
        self._server = server
        self.components: dict[str, Component] = {}
        self._vitals: dict[str, Vital] = {}
        self._reports: dict[str, Report] = {}
        self._memory: Memory | None = None
        self.monitor = EventLoopMonitor(self._measured)
        self.log_blocking = False
        """Whether a thread logs what blocks the event loop, with its stack. Set it before the server starts."""
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._running = False
        self._refusal: str | None = None
        self._said: Status = "ready"
        self._uri: str | None = None

    def add(
        self,
        name: str,
        check: Check,
        *,
        interval: float = HEALTH_EVERY,
        timeout: float = HEALTH_LIMIT,
        failure_threshold: int = HEALTH_FAILURES,
        required: bool = False,
    ) -> None:
        """Check a component every ``interval`` seconds; a check that takes longer than ``timeout`` has failed.

        After ``failure_threshold`` failures in a row the component is not ok. After as many more, calls are refused
        with 1087 if it is ``required``.

        Raises:
            ValueError: there is one of that name, or a number is out of range.
        """
        if name in self.components:
            raise ValueError(f"there is a component {name!r} already")
        if interval <= 0 or timeout <= 0 or failure_threshold < 1:
            raise ValueError("interval and timeout are more than 0 seconds, failure_threshold is at least 1")
        component = Component(
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
        """Forget a component."""
        self.components.pop(name, None)
        self._reports.pop(name, None)
        task = self._watching.pop(name, None)
        if task is not None:
            task.cancel()
        self._follow()

    def report(self, name: str, *, ok: bool) -> None:
        """Say how something is that somebody else watches. It is shown as a component; what is ok is forgotten."""
        if ok:
            self._reports.pop(name, None)
        else:
            self._reports[name] = Report(name, ok)
        self._follow()

    def publish(self, uri: str = HEALTH_URI) -> None:
        """Let clients read it all as the resource ``health``, and subscribe to it.

        Raises:
            RegistrationError: there is a resource of that address.
        """
        self._server.add_resource(uri, self.read, name="health", mime_type="application/json")
        self._uri = uri

    async def read(self) -> dict[str, Any]:
        """What the resource has in it; the same as ``/readyz`` as long as the server does not shut down."""
        return {"status": self.status, "components": self.told()}

    @property
    def status(self) -> Status:
        return "ready" if all(one.ok for one in self._all()) else "degraded"

    def told(self) -> dict[str, dict[str, Any]]:
        """Every component as an operator is shown it."""
        return {one.name: one.told() for one in self._all()}

    def _all(self) -> Iterable[Component | Vital | Report]:
        return *self.components.values(), *self._vitals.values(), *self._reports.values()

    # --- looking ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to look, if that has not begun."""
        if self._running:
            return
        self._running = True
        limits = self._server.limits
        self._vitals = {
            "loop": Vital("loop", "ms", LOOP_BLOCKED, limits.max_event_loop_lag, "overloaded", LOOP_LATE)
        }
        self._memory = memory(limits.max_memory_bytes)
        if self._memory is not None:
            self._vitals["memory"] = Vital("memory", "used", MEMORY_TIGHT, MEMORY_FULL, "memory_exhausted", 1)
        self.monitor.start(watchdog=self.log_blocking)
        for component in self.components.values():
            self._watch(component)

    async def stop(self) -> None:
        """Look no more."""
        self._running = False
        self.monitor.stop()
        self._vitals = {}
        self._follow()
        tasks, self._watching = list(self._watching.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _measured(self, late: float) -> bool:
        """Take the delay of the event loop; whether to measure on until everything is well again."""
        vitals = self._vitals
        if vitals:
            vitals["loop"].see(late)
        if self._memory is not None and "memory" in vitals:
            seen, used = vitals["memory"], self._memory.used()
            if used > MEMORY_TIGHT and seen.over % MEMORY_RELEASED == 0:
                release()  # else a server that nobody sends anything would stay at its limit
                used = self._memory.used()
            seen.see(used)
        self._follow()
        return any(vital.over for vital in vitals.values())

    def _watch(self, component: Component) -> None:
        if component.name not in self._watching:
            self._watching[component.name] = asyncio.get_running_loop().create_task(self._run(component))

    async def _run(self, component: Component) -> None:
        await self._look(component)
        await repeat(component.every, partial(self._look, component))

    async def _look(self, component: Component) -> None:
        begun = time.monotonic()
        good = await _good(component)
        component.took = time.monotonic() - begun
        component.failures = 0 if good else component.failures + 1
        ok = good or (component.ok and component.failures < component.tolerated)
        if ok != component.ok:
            component.ok = ok
            log.warning("component %r is %s", component.name, "ok again" if ok else "not ok")
        self._follow()

    # --- what follows -----------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        status = self.status
        if status != self._said:
            self._said = status
            log.warning(
                "the server is %s: %s", status, ", ".join(o.name for o in self._all() if not o.ok) or "all ok"
            )
            if self._uri is not None:
                self._server.hub.publish_resource_updated(self._uri)
        refusal = next((one.refusal for one in self._all() if one.refusal is not None), None)
        if refusal != self._refusal:
            self._refusal = refusal
            self._close() if refusal is not None else self._open()

    def _close(self) -> None:
        """Refuse every request that does work: a healthy server has no guard in its way."""
        log.error("calls are refused: %s", self._refusal)
        self._server.pipeline.refuse_with(self._check)

    def _open(self) -> None:
        log.warning("calls are served again")
        self._server.pipeline.refuse_with(None)

    def _check(self, call: Call) -> None:
        """Raises ProtocolError: the request is not served now."""
        own = self._uri is not None and call.method == "resources/read" and call.params.uri == self._uri
        if call.method not in LIGHT and not own:
            raise ProtocolError(self._refusal or "unhealthy", data={"retryAfterMs": RETRY_AFTER_MS})


_THREADS = ThreadPool(HEALTH_THREADS)
"""Of daemons: a check that hangs does not keep the process."""


async def _good(component: Component) -> bool:
    """Look once. Nothing that a check does or raises gets further than here."""
    try:
        async with asyncio.timeout(component.limit):
            if inspect.iscoroutinefunction(component.check):
                return await component.check() is not False
            # A plain function that hangs keeps its thread: it is not asked again while it does.
            if component.looking is None or component.looking.done():
                component.looking = asyncio.ensure_future(_THREADS.run(component.check))
            found = await asyncio.shield(component.looking)
            return (await found if inspect.isawaitable(found) else found) is not False
    except TimeoutError:
        log.warning("the check of %r did not end within %g s", component.name, component.limit)
    except Exception:
        log.warning("the check of %r failed", component.name, exc_info=True)
    return False
