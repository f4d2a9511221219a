"""`Concurrency`: so many calls at once, a bounded queue behind them, and a refusal for the rest.

```python
Server("shop", layers=[Concurrency(per_tool=8, per_principal=4, total=100, queue=50)])
```

It counts requests that run an author's code. A call that finds every place taken waits in the order of arrival; one
that finds the queue full as well is told 1004 (over HTTP 503) and when to come back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable, Iterable
from typing import Final

from msgspec import Raw, Struct

from ..core.channel import Call, Channel
from ..drivers.layering import Layer, Respond
from ..errors import ProtocolError
from ..settings import LAYER_QUEUE, RETRY_AFTER_MS
from .rate import principal_of

WORK: Final = frozenset({"tools/call", "resources/read", "prompts/get", "completion/complete"})


class Places:
    """A limited number of places for each name; a name nobody uses is forgotten."""

    __slots__ = ("limit", "taken", "waiting")

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"a limit of calls at once is 1 or more, not {limit}")
        self.limit = limit
        self.taken: dict[Hashable, int] = {}
        self.waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    async def wait(self, name: Hashable) -> None:
        """Take a place as soon as it is this caller's turn."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line = self.waiting.setdefault(name, deque())
        line.append(turn)
        try:
            await turn  # whoever leaves hands the place over
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(name)
            else:
                self._forget(name, turn)
            raise

    def _forget(self, name: Hashable, turn: asyncio.Future[None]) -> None:
        line = self.waiting.get(name)
        if line is not None:
            if turn in line:
                line.remove(turn)
            if not line:
                del self.waiting[name]

    def leave(self, name: Hashable) -> None:
        """Give the place to the next one in line, or back."""
        line = self.waiting.get(name)
        while line:
            turn = line.popleft()
            if not line:
                del self.waiting[name]
            if not turn.done():
                turn.set_result(None)
                return
        taken = self.taken[name] - 1
        if taken:
            self.taken[name] = taken
        else:
            del self.taken[name]

    @property
    def running(self) -> int:
        return sum(self.taken.values())


class Concurrency(Layer):
    """Let so many calls run at once, per tool, per principal and in all; ``queue`` may wait, one more is refused.

    Raises:
        ValueError: there is no limit, or one below 1.
    """

    def __init__(
        self,
        *,
        per_tool: int | None = None,
        per_principal: int | None = None,
        total: int | None = None,
        queue: int = LAYER_QUEUE,
    ) -> None:
        limits = {"principal": per_principal, "tool": per_tool, "total": total}
        self._places = tuple((scope, Places(limit)) for scope, limit in limits.items() if limit is not None)
        if not self._places:
            raise ValueError("Concurrency needs a limit: Concurrency(total=100)")
        self._queue = queue
        self.waiting = 0
        """Calls in the queue."""
        self.refused = 0

    @property
    def running(self) -> int:
        """Calls that hold a place of the outermost limit."""
        return self._places[-1][1].running

    def measure(self) -> Iterable[tuple[str, tuple[str, ...], float]]:
        return [("dovetail_queue", ("concurrency",), self.waiting)]

    def wrap(self, respond: Respond) -> Respond:
        """Taking a free place and giving it back are written out: they are the path of nearly every call."""
        limits = self._places

        async def limited(call: Call, channel: Channel) -> Struct | Raw:
            if call.method not in WORK:
                return await respond(call, channel)
            held: list[tuple[Places, Hashable]] = []
            try:
                for scope, places in limits:
                    name: Hashable = ""
                    if scope == "tool":
                        name = call.params.name if call.method == "tools/call" else None
                    elif scope == "principal":
                        name = principal_of(call)
                    if name is None:
                        continue
                    taken = places.taken
                    count = taken.get(name, 0)
                    if count < places.limit and name not in places.waiting:
                        taken[name] = count + 1
                    else:
                        await self._wait(places, name, scope)
                    held.append((places, name))
                return await respond(call, channel)
            finally:
                for places, name in held:
                    taken = places.taken
                    if places.waiting:
                        places.leave(name)
                    elif taken[name] == 1:
                        del taken[name]
                    else:
                        taken[name] -= 1

        return limited

    async def _wait(self, places: Places, name: Hashable, scope: str) -> None:
        if self.waiting >= self._queue:
            self.refused += 1
            kind = "too_many_tools" if scope == "tool" else "resource_constraints"
            data = {"retryAfterMs": RETRY_AFTER_MS, "scope": scope}
            raise ProtocolError(kind, "too many calls are running and waiting", data=data)
        self.waiting += 1
        try:
            await places.wait(name)
        finally:
            self.waiting -= 1
