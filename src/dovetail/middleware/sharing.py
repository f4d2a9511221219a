"""Rate limits of several processes with the same store: each process publishes what it has accepted.

The path of a message only counts. What was counted is published every tenth of a second, and at once when a name has
used a fiftieth of its burst; the other processes take it from their own buckets. So a message never waits for the
store. Together the processes accept a little more than the rate, which is made up for afterwards.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import os
import secrets
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ..stores.base import Store, StoreError
from .bounds import RATE_SHARED_NAMES, RATE_SHARED_SECONDS
from .rates import Buckets

log = logging.getLogger("dovetail")

Name = str | tuple[str, ...]


class News(Struct, array_like=True):
    """What one process tells the others."""

    sender: str
    taken: list[tuple[int, Name, int]]
    """Which rule, who, how many messages."""
    blocked: list[tuple[Name, float]] = []
    """Who is blocked, and for how many seconds."""


_decode = msgspec.json.Decoder(News).decode


class Sharing:
    """What one `RateLimit` of one process has in common with those of the others."""

    def __init__(
        self,
        store: Store,
        topic: str,
        tables: Sequence[Buckets],
        clock: Callable[[], float],
        block: Callable[[Hashable, float], None],
    ) -> None:
        self._store, self._topic, self._tables, self._clock, self._block = store, topic, tables, clock, block
        self._family = secrets.token_hex(8)
        """Names this object in the processes that are forked from this one, together with their process ids."""
        self.used: list[dict[Hashable, int]] = [{} for _ in tables]
        """What was let pass since the others were told, by rule and name."""
        self._blocked: list[tuple[Name, float]] = []
        self.waiting = False
        """The others will be told; whoever counts calls `wake` if not."""
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None
        self._again = False
        """More has to be published as soon as the present publication is done."""
        self._leave = store.subscribe(topic, self._hear)

    def close(self) -> None:
        self.stop()
        self._leave()

    def stop(self) -> None:
        """Tell nobody any more: a store that is closed would be opened by it."""
        self.waiting = False
        if self._timer is not None:
            self._timer.cancel()
        if self._telling is not None:
            self._telling.cancel()

    def wake(self) -> None:
        self.waiting = True
        self._timer = asyncio.get_running_loop().call_later(RATE_SHARED_SECONDS, self._tell)

    def hurry(self) -> None:
        """Publish at once: a name has used a noticeable part of its burst."""
        if self._telling is not None and not self._telling.done():
            self._again = True
            return
        if self._timer is not None:
            self._timer.cancel()
        self._tell()

    def blocked(self, name: Hashable, seconds: float) -> None:
        """Tell the others that somebody is blocked."""
        if _is_shared(name):
            self._blocked.append((name, seconds))  # pyright: ignore[reportArgumentType]
            if not self.waiting:
                self.wake()

    def _tell(self) -> None:
        self.waiting = False
        taken: list[tuple[int, Any, int]] = []
        for place, used in enumerate(self.used):
            # Of very many the busiest count; whoever comes once is within any rate.
            most = heapq.nlargest(RATE_SHARED_NAMES, used.items(), key=lambda item: item[1])
            taken += [(place, name, count) for name, count in most if _is_shared(name)]
            used.clear()
        news = News(self._sender, taken, self._blocked)
        self._blocked = []
        if taken or news.blocked:
            self._telling = asyncio.get_running_loop().create_task(self._publish(msgspec.json.encode(news)))

    @property
    def _sender(self) -> str:
        # A worker is forked after this object was made; its process id tells it from its siblings.
        return f"{self._family}-{os.getpid()}"

    async def _publish(self, data: bytes) -> None:
        try:
            await self._store.publish(self._topic, data)
        except StoreError as error:
            log.warning("cannot publish the calls that were accepted: %s", error)
        self._telling = None
        if self._again:
            self._again = False
            self.hurry()

    def _hear(self, data: bytes) -> None:
        try:
            news = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        if news.sender == self._sender:
            return
        now = self._clock()
        for place, name, count in news.taken:
            if place < len(self._tables):
                self._tables[place].add(name, count, now)
        for name, seconds in news.blocked:
            self._block(name, now + seconds)


def _is_shared(name: Hashable) -> bool:
    """Whether others call it the same: a session without an id is known here alone."""
    return isinstance(name, str | tuple)
