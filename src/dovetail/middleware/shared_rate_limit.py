"""Rate limits of several processes with one store: a process reserves tokens there and spends them itself.

The store holds one bucket for each rule and name. A process takes a few tokens out of it with a compare-and-set: one at
first, twice as many each time, at most a fiftieth of those that are left. It spends them without asking the store, and
returns the rest when it has not used any for a second. So all processes together accept no more than the rate.
Tokens that one process holds and does not use are missing in the others for a second or two at most.

When the store fails or does not answer in time, each process limits alone for a second and then tries the store again.
Until then the rate is multiplied by the number of processes.
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
from .token_bucket import RATE_KEYS, SHORTEST_WAIT, Buckets, State

RATE_RESERVED_PART: Final = 0.02
"""The part of the tokens left in the store that one process reserves at once."""
RATE_RETURN_SECONDS: Final = 1.0
"""Seconds after which a process returns reserved tokens that it has not used."""
RATE_REFUSED_SECONDS: Final = 0.1
"""Seconds in which a process refuses without asking the store again: other processes may return tokens."""
RATE_STORE_SECONDS: Final = 1.0
"""Seconds the store may take to answer; and seconds a process then limits alone before it asks the store
again."""


log = logging.getLogger("dovetail")

_decode_state = msgspec.json.Decoder(State).decode
_decode_block = msgspec.json.Decoder(tuple[str | tuple[str, ...], float]).decode


class Reservation:
    """The tokens that this process holds of one bucket."""

    __slots__ = ("ask_again", "batch", "key", "last", "left", "refilling", "seen", "value", "waiters")

    def __init__(self, key: str) -> None:
        self.key = key
        self.left = 0
        """Tokens to spend; negative when notifications have spent tokens that are not reserved yet."""
        self.seen = 0
        """What was left when unused tokens were last looked for."""
        self.batch = 1
        """How many tokens to reserve next."""
        self.value: bytes | None = None
        """The last known value of the key: if it is still the value, reserving takes one round trip."""
        self.ask_again = 0.0
        """The bucket was empty: no token until then, and the store is not asked before."""
        self.last = 0.0
        """When the bucket that was empty has a token again."""
        self.waiters: list[asyncio.Future[float]] = []
        self.refilling = False


class Sharing:
    """The tokens one `RateLimit` of one process has reserved, and which clients are blocked by any process."""

    def __init__(
        self,
        store: Store,
        topic: str,
        tables: Sequence[Buckets],
        clock: Callable[[], float],
        block: Callable[[Hashable, float], None],
    ) -> None:
        self._store, self._topic, self._tables, self._clock, self._block = store, topic, tables, clock, block
        self._wall = time.time if clock is time.monotonic else clock
        """The time in the store: monotonic clocks differ from machine to machine."""
        self.held: list[dict[Hashable, Reservation]] = [{} for _ in tables]
        """The reservations, by rule and name."""
        self._alone_until = 0.0
        """Until then this process limits alone: the store has failed."""
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsubscribe = store.subscribe(topic, self._hear_block)

    def close(self) -> None:
        self.stop()
        self._unsubscribe()

    def stop(self) -> None:
        """Use the store no more: a closed store would be opened again. Reserved tokens are lost."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in self._tasks:
            task.cancel()
        for held in self.held:
            held.clear()

    # --- tokens ---------------------------------------------------------------------------------------------------

    async def take(self, place: int, name: Hashable) -> float:
        """Take a token of the rule ``place``: 0, or the seconds until there is one. Asks the store if need be."""
        now, table = self._clock(), self._tables[place]
        if not _is_shared(name) or now < self._alone_until:
            return table.take(name, now)
        one = self._reservation(place, name)
        if one.left > 0:
            one.left -= 1
            return 0.0
        if now < one.ask_again:
            return one.last - now
        waiter: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        one.waiters.append(waiter)
        self._refill(place, name, one)
        return await waiter

    def take_now(self, place: int, name: Hashable) -> float:
        """Take a token without waiting, for a notification: one that is not reserved yet is reserved afterwards."""
        now, table = self._clock(), self._tables[place]
        if not _is_shared(name) or now < self._alone_until:
            return table.take(name, now)
        one = self._reservation(place, name)
        if one.left <= 0 and now < one.ask_again:
            return one.last - now
        if one.left <= -table.burst:
            return table.interval
        one.left -= 1
        if one.left < 0:
            self._refill(place, name, one)
        return 0.0

    def _reservation(self, place: int, name: Hashable) -> Reservation:
        held = self.held[place]
        one = held.get(name)
        if one is None:
            if len(held) >= RATE_KEYS:
                # The oldest goes; a request that waits for it has it still.
                del held[next(iter(held))]
            digest = hashlib.sha256(msgspec.json.encode(name)).hexdigest()[:32]
            one = held[name] = Reservation(f"{self._topic}/{place}/{digest}")
        return one

    def _refill(self, place: int, name: Hashable, one: Reservation) -> None:
        if not one.refilling:
            one.refilling = True
            self._start(self._reserve(place, name, one))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RATE_RETURN_SECONDS, self._return_unused)

    async def _reserve(self, place: int, name: Hashable, one: Reservation) -> None:
        """Reserve tokens until each request that waits has one or is refused."""
        try:
            while one.waiters or one.left < 0:
                needed = len(one.waiters) - min(one.left, 0)
                async with asyncio.timeout(RATE_STORE_SECONDS):
                    granted, wait = await self._change(place, one, needed)
                one.left += granted
                if wait:
                    now = self._clock()
                    one.left = max(one.left, 0)
                    one.last, one.ask_again = now + wait, now + min(wait, RATE_REFUSED_SECONDS)
                self._settle(one, needed, wait)
        except (StoreError, TimeoutError) as error:
            log.warning(
                "rate limits are not shared for a moment: the store failed: %s", error or "no answer in time"
            )
            self._alone_until = self._clock() + RATE_STORE_SECONDS
        finally:
            one.refilling = False
            one.left = max(one.left, 0)
            # The store has failed, or the server stops: those that still wait are limited by this process alone.
            waiters, one.waiters = one.waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(self._tables[place].take(name, self._clock()))

    def _settle(self, one: Reservation, count: int, wait: float) -> None:
        """Give tokens to the requests that wait. With ``wait`` set, refuse those of the first ``count`` without one."""
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

    async def _change(self, place: int, one: Reservation, needed: int) -> tuple[int, float]:
        """Take tokens out of the bucket in the store, or return some if ``needed`` is negative.

        The result is how many were taken, and the seconds until the next token if they are fewer than needed.
        """
        table, value, known = self._tables[place], one.value, one.value is not None
        while True:
            if not known:
                value = await self._store.get(one.key)
            now, state = self._wall(), _state_of(value)
            left = table.available(state, now)
            count = (
                min(max(needed, min(one.batch, int(left * RATE_RESERVED_PART))), left)
                if needed > 0
                else needed
            )
            if needed > 0 and count <= 0:
                if known:  # another process may have returned tokens
                    known = False
                    continue
                one.value = value
                return 0, max(table.until_token(state, now), SHORTEST_WAIT)
            changed = table.spend(state, count, now)
            data, ttl = msgspec.json.encode(changed), table.lifetime(changed, now)
            if await self._store.put(one.key, data, ttl=ttl, only_new=value is None, expect=value):
                one.value, one.batch = data, max(2 * count, 1)
                return count, max(table.until_token(changed, now), SHORTEST_WAIT) if count < needed else 0.0
            known = False

    def _return_unused(self) -> None:
        """Return the tokens that were not touched since the last time; forget names without any."""
        self._timer = None
        for place, held in enumerate(self.held):
            for name, one in list(held.items()):
                if one.refilling:
                    continue
                if one.left > 0 and one.left == one.seen:
                    count, one.left = one.left, 0
                    self._start(self._give_back(place, one, count))
                elif not one.left and not one.seen:
                    del held[name]
                one.seen = one.left
        if any(self.held):
            self._timer = asyncio.get_running_loop().call_later(RATE_RETURN_SECONDS, self._return_unused)

    async def _give_back(self, place: int, one: Reservation, count: int) -> None:
        try:
            async with asyncio.timeout(RATE_STORE_SECONDS):
                await self._change(place, one, -count)
        except (StoreError, TimeoutError) as error:
            log.debug("unused tokens were not returned: %s", error)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- blocked clients ------------------------------------------------------------------------------------------

    def publish_block(self, name: Hashable, seconds: float) -> None:
        """Tell the other processes that a client is blocked for ``seconds``."""
        if _is_shared(name):
            self._start(self._publish(msgspec.json.encode((name, seconds))))

    async def _publish(self, data: bytes) -> None:
        try:
            await self._store.publish(self._topic, data)
        except StoreError as error:
            log.warning("cannot publish that a client is blocked: %s", error)

    def _hear_block(self, data: bytes) -> None:
        try:
            name, seconds = _decode_block(data)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        self._block(name, self._clock() + seconds)


def _state_of(value: bytes | None) -> State | None:
    """The state of a bucket; a value that cannot be read is replaced by that of a full one."""
    if value is None:
        return None
    try:
        return _decode_state(value)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _is_shared(name: Hashable) -> bool:
    """Whether other processes use the same name: a session without an id is known here alone."""
    return isinstance(name, str | tuple)
