"""Rate limits shared by several processes through a store: each process reserves tokens and spends them
locally.

The store holds one token bucket per rule and key. A process reserves tokens with a compare-and-set: one at
first, then twice as many each time, at most a fiftieth of the remaining ones. It spends them without
accessing the store, and returns unused ones after a second. All processes together therefore accept no more
than the rate. Unused tokens of one process are unavailable to the others for a second or two at most.

If the store fails or is too slow, each process applies the limits locally for a second and then retries the
store. Until then the effective rate is multiplied by the number of processes.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any, Final

import msgspec

from ..stores.base import Store, StoreError
from .token_bucket import MAX_RATE_KEYS, MIN_RETRY_DELAY, State, TokenBuckets

RATE_RESERVED_FRACTION: Final = 0.02
"""The part of the tokens left in the store that one process reserves at once."""
RATE_RETURN_INTERVAL: Final = 1.0
"""Seconds after which a process returns reserved tokens that it has not used."""
RATE_EMPTY_PERIOD: Final = 0.1
"""Seconds in which a process refuses without asking the store again: other processes may return tokens."""
RATE_STORE_TIMEOUT: Final = 1.0
"""Seconds the store may take to answer; and seconds a process then limits alone before it asks the store
again."""


log = logging.getLogger("dovetail")

_decode_state = msgspec.json.Decoder(State).decode
_decode_block = msgspec.json.Decoder(tuple[str | tuple[str, ...], float]).decode


class Reservation:
    """The tokens of one bucket that this process has reserved."""

    __slots__ = ("batch", "empty_until", "key", "last", "left", "refilling", "seen", "value", "waiters")

    def __init__(self, key: str) -> None:
        self.key = key
        self.left = 0
        """Remaining tokens; negative if notifications spent tokens before they were reserved."""
        self.seen = 0
        """Remaining tokens at the last check for unused ones."""
        self.batch = 1
        """How many tokens to reserve next."""
        self.value: bytes | None = None
        """The last known value of the key. If it is current, a reservation takes one round trip."""
        self.empty_until = 0.0
        """The bucket was empty: the store is not asked again before this time."""
        self.last = 0.0
        """When the empty bucket has a token again."""
        self.waiters: list[asyncio.Future[float]] = []
        self.refilling = False


class SharedBuckets:
    """The reserved tokens of one `RateLimit` in this process, and the clients blocked by any process."""

    def __init__(
        self,
        store: Store,
        topic: str,
        tables: Sequence[TokenBuckets],
        clock: Callable[[], float],
        block: Callable[[Hashable, float], None],
    ) -> None:
        self._store, self._topic, self._tables, self._clock, self._block = store, topic, tables, clock, block
        self._wall = time.time if clock is time.monotonic else clock
        """Wall-clock time: monotonic clocks differ between machines."""
        self.held: list[dict[Hashable, Reservation]] = [{} for _ in tables]
        """The reservations, by rule and key."""
        self._local_until = 0.0
        """Apply the limits locally until this time, because the store has failed."""
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsubscribe = store.subscribe(topic, self._on_block)

    def close(self) -> None:
        self.stop()
        self._unsubscribe()

    def stop(self) -> None:
        """Stop using the store, which would otherwise be reopened. Reserved tokens are lost."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in self._tasks:
            task.cancel()
        for held in self.held:
            held.clear()

    # --- tokens ---------------------------------------------------------------------------------------------------

    async def acquire(self, place: int, name: Hashable) -> float:
        """Acquire a token of rule number ``place``. Return 0, or the seconds until one is available."""
        now, table = self._clock(), self._tables[place]
        if not _is_shared(name) or now < self._local_until:
            return table.acquire(name, now)
        one = self._reservation(place, name)
        if one.left > 0:
            one.left -= 1
            return 0.0
        if now < one.empty_until:
            return one.last - now
        waiter: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        one.waiters.append(waiter)
        self._refill(place, name, one)
        return await waiter

    def acquire_nowait(self, place: int, name: Hashable) -> float:
        """Acquire a token without waiting, for a notification. A missing one is reserved afterwards."""
        now, table = self._clock(), self._tables[place]
        if not _is_shared(name) or now < self._local_until:
            return table.acquire(name, now)
        one = self._reservation(place, name)
        if one.left <= 0 and now < one.empty_until:
            return one.last - now
        if one.left <= -table.burst:
            return table.interval
        one.left -= 1
        if one.left < 0:
            self._refill(place, name, one)
        return 0.0

    def _reservation(self, place: int, name: Hashable) -> Reservation:
        reservations = self.held[place]
        one = reservations.get(name)
        if one is None:
            if len(reservations) >= MAX_RATE_KEYS:
                # Evict the oldest; requests that wait for it keep their reference.
                del reservations[next(iter(reservations))]
            digest = hashlib.sha256(msgspec.json.encode(name)).hexdigest()[:32]
            one = reservations[name] = Reservation(f"{self._topic}/{place}/{digest}")
        return one

    def _refill(self, place: int, name: Hashable, one: Reservation) -> None:
        if not one.refilling:
            one.refilling = True
            self._start(self._reserve(place, name, one))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RATE_RETURN_INTERVAL, self._return_unused)

    async def _reserve(self, place: int, name: Hashable, one: Reservation) -> None:
        """Reserve tokens until every waiting request has one or is refused."""
        try:
            while one.waiters or one.left < 0:
                needed = len(one.waiters) - min(one.left, 0)
                async with asyncio.timeout(RATE_STORE_TIMEOUT):
                    granted, wait = await self._update_bucket(place, one, needed)
                one.left += granted
                if wait:
                    now = self._clock()
                    one.left = max(one.left, 0)
                    one.last, one.empty_until = now + wait, now + min(wait, RATE_EMPTY_PERIOD)
                self._grant(one, needed, wait)
        except (StoreError, TimeoutError) as error:
            log.warning("shared rate limit unavailable, limiting per process: %s", error or "store timeout")
            self._local_until = self._clock() + RATE_STORE_TIMEOUT
        finally:
            one.refilling = False
            one.left = max(one.left, 0)
            # The store failed or the server stops: waiting requests are limited locally.
            waiters, one.waiters = one.waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(self._tables[place].acquire(name, self._clock()))

    def _grant(self, one: Reservation, count: int, wait: float) -> None:
        """Grant tokens to waiting requests. With ``wait``, refuse those of the first ``count`` without a
        token.
        """
        waiters, one.waiters = one.waiters, []
        for number, waiter in enumerate(waiters):
            if waiter.done():  # cancelled
                continue
            if one.left > 0:
                one.left -= 1
                waiter.set_result(0.0)
            elif wait and number < count:
                waiter.set_result(wait)
            else:
                one.waiters.append(waiter)

    async def _update_bucket(self, place: int, one: Reservation, needed: int) -> tuple[int, float]:
        """Reserve tokens in the store, or return some if ``needed`` is negative.

        Return the number of reserved tokens, and the seconds until the next one if they are fewer than
        needed.
        """
        table, value, known = self._tables[place], one.value, one.value is not None
        while True:
            if not known:
                value = await self._store.get(one.key)
            now, state = self._wall(), _state_of(value)
            left = table.available(state, now)
            count = (
                min(max(needed, min(one.batch, int(left * RATE_RESERVED_FRACTION))), left)
                if needed > 0
                else needed
            )
            if needed > 0 and count <= 0:
                if known:  # another process may have returned tokens
                    known = False
                    continue
                one.value = value
                return 0, max(table.until_token(state, now), MIN_RETRY_DELAY)
            changed = table.spend(state, count, now)
            data, ttl = msgspec.json.encode(changed), table.lifetime(changed, now)
            if await self._store.put(one.key, data, ttl=ttl, only_new=value is None, expect=value):
                one.value, one.batch = data, max(2 * count, 1)
                return count, max(table.until_token(changed, now), MIN_RETRY_DELAY) if count < needed else 0.0
            known = False

    def _return_unused(self) -> None:
        """Return tokens that were not used since the last check, and drop unused keys."""
        self._timer = None
        for place, held in enumerate(self.held):
            for name, one in list(held.items()):
                if one.refilling:
                    continue
                if one.left > 0 and one.left == one.seen:
                    count, one.left = one.left, 0
                    self._start(self._return_tokens(place, one, count))
                elif not one.left and not one.seen:
                    del held[name]
                one.seen = one.left
        if any(self.held):
            self._timer = asyncio.get_running_loop().call_later(RATE_RETURN_INTERVAL, self._return_unused)

    async def _return_tokens(self, place: int, one: Reservation, count: int) -> None:
        try:
            async with asyncio.timeout(RATE_STORE_TIMEOUT):
                await self._update_bucket(place, one, -count)
        except (StoreError, TimeoutError) as error:
            log.debug("rate limit tokens not returned: %s", error)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- blocked clients ------------------------------------------------------------------------------------------

    def publish_block(self, name: Hashable, seconds: float) -> None:
        """Announce to other processes that a client is blocked for ``seconds``."""
        if _is_shared(name):
            self._start(self._publish(msgspec.json.encode((name, seconds))))

    async def _publish(self, data: bytes) -> None:
        try:
            await self._store.publish(self._topic, data)
        except StoreError as error:
            log.warning("client block not published: %s", error)

    def _on_block(self, data: bytes) -> None:
        try:
            name, seconds = _decode_block(data)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        self._block(name, self._clock() + seconds)


def _state_of(value: bytes | None) -> State | None:
    """Decode the state of a bucket. An unreadable value counts as a full bucket."""
    if value is None:
        return None
    try:
        return _decode_state(value)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _is_shared(name: Hashable) -> bool:
    """Return whether other processes use the same key. A session without an id is local."""
    return isinstance(name, str | tuple)
