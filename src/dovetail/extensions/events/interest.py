"""`Interests`: which arguments of which event types have a subscriber, for the hooks of the author.

``on_subscribe`` is called before the first delivery for a principal and its arguments, ``on_unsubscribe`` when the last
subscription with them has ended. Streams and webhooks say when they end. A client that polls does not: its interest
is leased, and each poll renews the lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from msgspec import Struct

from .event_model import exhausted
from .event_types import EventSubscriber, Hook

log = logging.getLogger("dovetail.server")

LEASED_INTERVALS: Final = 3
"""A lease lasts for this many poll intervals, so that a client that polls never loses it."""
MIN_POLL_LEASE: Final = 60.0
"""Seconds that a lease lasts at least."""

PRINCIPAL_PART: Final = 10
"""One principal may have a tenth of all interests."""

Key = tuple[str, str, bytes]


class _Interest(Struct, eq=False):
    subscriber: EventSubscriber
    ready: asyncio.Future[None]
    count: int = 0
    lease: asyncio.TimerHandle | None = None


class Interests:
    """The interests of one server. Types without hooks have none."""

    def __init__(self, call: Callable[..., Any], *, maximum: int) -> None:
        self._call = call
        self._maximum = maximum
        self._known: dict[Key, _Interest] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._known)

    @asynccontextmanager
    async def hold(self, subscriber: EventSubscriber) -> AsyncGenerator[None]:
        """Be interested for the time of the block.

        Raises:
            ProtocolError: too many interests.
        """
        if not _hooked(subscriber):
            yield
            return
        found = await self._enter(subscriber)
        found.count += 1
        try:
            yield
        finally:
            found.count -= 1
            self._leave_unused(found)

    async def lease(self, subscriber: EventSubscriber) -> None:
        """Be interested until some time after the last poll. Raises: as `hold`."""
        if not _hooked(subscriber):
            return
        found = await self._enter(subscriber)
        if found.lease is not None:
            found.lease.cancel()
        seconds = max(MIN_POLL_LEASE, LEASED_INTERVALS * subscriber.type.poll_interval)
        found.lease = asyncio.get_running_loop().call_later(seconds, self._lapse, found)

    def lapse_all(self) -> None:
        """End all leases now."""
        for found in list(self._known.values()):
            if found.lease is not None:
                found.lease.cancel()
                self._lapse(found)

    async def close(self) -> None:
        """End all leases, and wait for the hooks."""
        self.lapse_all()
        if self._ending:
            await asyncio.wait(self._ending)

    async def _enter(self, subscriber: EventSubscriber) -> _Interest:
        found = self._known.get(subscriber.key)
        if found is not None:
            found.count += 1  # it must not end while the hook runs
            try:
                await asyncio.shield(found.ready)
            except BaseException:
                found.count -= 1
                self._leave_unused(found)
                raise
            found.count -= 1
            return found
        own = max(1, self._maximum // PRINCIPAL_PART)
        who = subscriber.key[1]
        if len(self._known) >= self._maximum:
            raise exhausted("subscriptions", self._maximum)
        if who and sum(key[1] == who for key in self._known) >= own:
            raise exhausted("subscriptions", own)
        found = _Interest(subscriber, asyncio.get_running_loop().create_future(), 1)
        self._known[subscriber.key] = found
        try:
            await self._run(subscriber.type.on_subscribe, subscriber)
        except BaseException as error:
            del self._known[subscriber.key]
            found.ready.set_exception(error if isinstance(error, Exception) else ConnectionAbortedError())
            found.ready.exception()  # retrieve the exception: it may have no other waiter
            raise
        found.ready.set_result(None)
        found.count -= 1
        return found

    def _lapse(self, found: _Interest) -> None:
        found.lease = None
        self._leave_unused(found)

    def _leave_unused(self, found: _Interest) -> None:
        key = found.subscriber.key
        if found.count or found.lease is not None or self._known.get(key) is not found:
            return
        del self._known[key]
        task = asyncio.get_running_loop().create_task(self._end(found.subscriber))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, subscriber: EventSubscriber) -> None:
        try:
            await self._run(subscriber.type.on_unsubscribe, subscriber)
        except Exception:
            log.exception("on_unsubscribe of the event type %s failed", subscriber.type.name)

    async def _run(self, hook: Hook | None, subscriber: EventSubscriber) -> None:
        if hook is not None:
            await self._call(hook, subscriber.arguments, subscriber.principal)


def _hooked(subscriber: EventSubscriber) -> bool:
    return subscriber.type.on_subscribe is not None or subscriber.type.on_unsubscribe is not None
