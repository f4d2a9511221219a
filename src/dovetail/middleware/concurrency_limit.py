"""`ConcurrencyLimit`: limit concurrent calls, queue a bounded number of further ones, and refuse the rest.

```python
Server("shop", middleware=[ConcurrencyLimit(per_tool=8, per_principal=4, total=100, queue=50)])
```

It counts requests that run an author's code. A call waits in order of arrival when the limit is reached. When
the queue is full, it is refused with 1004 (over HTTP: 503) and a retry delay: this is the backpressure on
clients.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final
from weakref import WeakValueDictionary

from msgspec import Raw, Struct

from ..drivers.middleware_chain import Middleware, Next, Request, tool_standing_for
from ..drivers.semaphore import QueuedSemaphore
from ..errors import RETRY_AFTER_MS, ProtocolError
from ..settings import check_kinds
from ..settings.parameter_kinds import WHOLE, or_none
from .rate_limit import principal_of
from .token_bucket import TRACKED_NAMES

DEFAULT_QUEUE: Final = 100
"""Calls that may wait for a free slot, by default."""


WORK: Final = frozenset({"tools/call", "resources/read", "prompts/get", "completion/complete"})


class ScopedSemaphore(QueuedSemaphore):
    """The semaphore of one scope and name. The middleware limits its queue."""

    __slots__ = ("scope",)

    def __init__(self, scope: str, most: int) -> None:
        super().__init__(most, 0)
        self.scope = scope


class ConcurrencyLimit(Middleware):
    """Limit how many calls run at the same time. Further calls wait in a queue; if it is full, they are refused.

    Raises:
        ValueError: no limit is given, or one is below 1.
    """

    def __init__(
        self,
        *,
        per_tool: int | None = None,
        per_principal: int | None = None,
        total: int | None = None,
        queue: int = DEFAULT_QUEUE,
    ) -> None:
        """Set at least one limit.

        Args:
            per_tool: Calls of each tool that run at the same time.
            per_principal: Calls of each principal that run at the same time.
            total: Calls that run at the same time.
            queue: Calls that can wait; further calls are refused.
        """
        check_kinds(
            {
                "per_tool": or_none(WHOLE),
                "per_principal": or_none(WHOLE),
                "total": or_none(WHOLE),
                "queue": WHOLE,
            },
            locals(),
        )
        limits = {"principal": per_principal, "tool": per_tool, "total": total}
        self._limits = {scope: most for scope, most in limits.items() if most is not None}
        if not self._limits:
            raise ValueError(
                "ConcurrencyLimit needs at least one limit, for example ConcurrencyLimit(total=100)"
            )
        if min(self._limits.values()) < 1:
            raise ValueError(f"a concurrency limit must be at least 1, not {min(self._limits.values())}")
        self._semaphores: WeakValueDictionary[tuple[str, Hashable], ScopedSemaphore] = WeakValueDictionary()
        """By scope and name, as long as a call or `_groups` references it."""
        self._groups: dict[Hashable, tuple[ScopedSemaphore, ...]] = {}
        """The semaphores that a call needs, by its tool and principal."""
        self._queue = queue
        self.waiting = 0
        """Calls in the queue."""
        self.refused = 0

    @property
    def running(self) -> int:
        """Calls that hold the outermost limit."""
        scope = next(reversed(self._limits))
        return sum(places.in_use for places in self._semaphores.values() if places.scope == scope)

    def measure(self) -> Iterable[tuple[str, tuple[str, ...], float]]:
        return [("dovetail_queue", ("concurrency",), self.waiting)]

    def wrap(self, call_next: Next) -> Next:
        """Wrap ``call_next``. The fast path is written without function calls, because nearly every call
        takes it.
        """
        groups, by_tool, by_principal = self._groups, "tool" in self._limits, "principal" in self._limits

        async def limited(request: Request) -> Struct | Raw:
            call = request.call
            standing = None if call.source is None else tool_standing_for(call)
            if call.method not in WORK and standing is None:
                return await call_next(request)
            tool = None
            if by_tool:
                tool = request.name if call.method == "tools/call" else standing
            who = principal_of(call) if by_principal else None
            key = (tool, who) if by_principal else tool
            group = groups.get(key) or self._group(key, {"tool": tool, "principal": who, "total": ""})
            for places in group:
                if places.in_use >= places.maximum or places.waiting:
                    await self._acquire_all(group)
                    break
            else:
                for places in group:
                    places.in_use += 1
            try:
                return await call_next(request)
            finally:
                for places in group:
                    if places.waiting:
                        places.release()
                    else:
                        places.in_use -= 1

        return limited

    def _group(self, key: Hashable, names: dict[str, Hashable]) -> tuple[ScopedSemaphore, ...]:
        if len(self._groups) >= TRACKED_NAMES:
            self._groups.clear()
        group = self._groups[key] = tuple(
            self._semaphores.setdefault((scope, names[scope]), ScopedSemaphore(scope, most))
            for scope, most in self._limits.items()
            if names[scope] is not None
        )
        return group

    async def _acquire_all(self, group: tuple[ScopedSemaphore, ...]) -> None:
        """Acquire the semaphores one after the other."""
        held: list[ScopedSemaphore] = []
        try:
            for places in group:
                if places.waiting or places.in_use >= places.maximum:
                    await self._wait(places)
                else:
                    places.in_use += 1
                held.append(places)
        except BaseException:
            for places in held:
                places.release()
            raise

    async def _wait(self, places: ScopedSemaphore) -> None:
        if self.waiting >= self._queue:
            self.refused += 1
            kind = "too_many_tools" if places.scope == "tool" else "resource_constraints"
            data = {"retryAfterMs": RETRY_AFTER_MS, "scope": places.scope}
            raise ProtocolError(kind, "the concurrency limit and its queue are full; retry later", data=data)
        self.waiting += 1
        try:
            await places.wait()
        finally:
            self.waiting -= 1
