"""Whether what a server needs is there: components that are looked at now and then.

```python
server.health.add("db", check, every=30, limit=5, failures=3)
```

A check is a function, plain or async. It fails by raising, by returning False, or by taking longer than ``limit``
seconds. After ``failures`` of them in a row its component is not ok, and ``/readyz`` says 503, so that a balancer sends
new clients elsewhere before their calls fail; one success and it is ok again. What a check raised stays in the log.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from ..drivers.pool import Threads
from ..settings import HEALTH_EVERY, HEALTH_FAILURES, HEALTH_LIMIT, HEALTH_THREADS

log = logging.getLogger("dovetail.health")

Check = Callable[[], Any]
Status = Literal["ready", "degraded"]


class Component(Struct, eq=False, kw_only=True):
    """One thing a server needs."""

    name: str
    check: Check
    every: float
    limit: float
    tolerated: int
    failures: int = 0
    """In a row."""
    ok: bool = True
    took: float | None = None
    """Seconds the last look took; None before the first one."""
    looking: asyncio.Future[Any] | None = None
    """A plain function that is still at it."""

    def told(self) -> dict[str, Any]:
        """What an operator is shown: never what a check raised."""
        seen = {} if self.took is None else {"ms": round(self.took * 1000, 1)}
        return {"ok": self.ok, "failures": self.failures, **seen}


class Health:
    """The components of one server. They are watched from the start of the server to its end."""

    def __init__(self) -> None:
        self.components: dict[str, Component] = {}
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._running = False

    def add(
        self,
        name: str,
        check: Check,
        *,
        every: float = HEALTH_EVERY,
        limit: float = HEALTH_LIMIT,
        failures: int = HEALTH_FAILURES,
    ) -> None:
        """Watch a component: look every ``every`` seconds, for ``limit`` seconds at most.

        Raises:
            ValueError: there is one of that name, or a figure means nothing.
        """
        if name in self.components:
            raise ValueError(f"there is a component {name!r} already")
        if every <= 0 or limit <= 0 or failures < 1:
            raise ValueError(
                "a component is looked at every so many seconds, for a while, and fails once at least"
            )
        component = Component(name=name, check=check, every=every, limit=limit, tolerated=failures)
        self.components[name] = component
        if self._running:
            self._watch(component)

    def remove(self, name: str) -> None:
        """Forget a component."""
        self.components.pop(name, None)
        task = self._watching.pop(name, None)
        if task is not None:
            task.cancel()

    @property
    def status(self) -> Status:
        return "ready" if all(one.ok for one in self.components.values()) else "degraded"

    def told(self) -> dict[str, dict[str, Any]]:
        """Every component as an operator is shown it."""
        return {name: component.told() for name, component in self.components.items()}

    def start(self) -> None:
        """Begin to look, if that has not begun."""
        self._running = True
        for component in self.components.values():
            self._watch(component)

    async def stop(self) -> None:
        """Look no more."""
        self._running = False
        tasks, self._watching = list(self._watching.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _watch(self, component: Component) -> None:
        if component.name not in self._watching:
            self._watching[component.name] = asyncio.get_running_loop().create_task(self._look(component))

    async def _look(self, component: Component) -> None:
        while True:
            begun = time.monotonic()
            good = await _good(component)
            component.took = time.monotonic() - begun
            component.failures = 0 if good else component.failures + 1
            ok = good or (component.ok and component.failures < component.tolerated)
            if ok != component.ok:
                component.ok = ok
                log.warning("component %r is %s", component.name, "ok again" if ok else "not ok")
            await asyncio.sleep(component.every)


_THREADS = Threads(HEALTH_THREADS)
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
            return await asyncio.shield(component.looking) is not False
    except TimeoutError:
        log.warning("the check of %r did not end within %g s", component.name, component.limit)
    except Exception:
        log.warning("the check of %r failed", component.name, exc_info=True)
    return False
