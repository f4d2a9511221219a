"""Token bucket and sliding window: rate counters for many keys in tables of bounded size.

A *bucket* of ``burst`` tokens refills with ``rate`` tokens per second; a message takes one. It is stored as
the time at which it is full again, so taking a token is one comparison and one addition. A *window* counts
the messages of the last ``period`` seconds; the previous period is weighted by its remaining share.

A table has two generations. Used keys are in the young one; when it is full, the old one is dropped. Ten
thousand keys that are used once therefore do not evict a key that is used all the time.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Final

from msgspec import Struct

MAX_RATE_KEYS: Final = 20_000
"""Clients, principals, sessions, addresses or tools one rate is kept for at once; those not seen for long go
first."""
MIN_RETRY_DELAY: Final = 0.001
"""The shortest ``retry_after`` of a refusal, in seconds."""
CLOCK_TOLERANCE: Final = 1.0
"""Seconds by which a clock must have gone back before it is noticed."""
TRACKED_NAMES: Final = 10_000
"""Names (of tools, principals, sessions) that a middleware holds state for."""


_PERIODS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*(s|m|h|d)\s*")


State = tuple[float, float, float]
"""Stored state. Window: start of its period and two counts. Bucket: the time it is full, and zeros."""


class Rate(Struct, frozen=True):
    """A rate of ``count`` messages per ``period`` seconds."""

    count: float
    period: float

    @classmethod
    def parse(cls, text: str | float | Rate) -> Rate:
        """Parse "100/s", "20/m", "1000/h" or "5/d". A bare number is per second.

        Raises:
            ValueError: the text is not a rate, or the rate is zero.
        """
        if isinstance(text, Rate):
            return text
        match = _RATE.fullmatch(text) if isinstance(text, str) else None
        count = float(match[1]) if match else 0.0 if isinstance(text, str) else float(text)
        if not 0 < count < float("inf"):
            raise ValueError(f"not a valid rate: {text!r}; write it like '100/s' or '20/m'")
        return cls(count, _PERIODS[match[2]] if match else 1.0)


class TokenBuckets:
    """A token bucket per key. `RateLimit` inlines `acquire`; a test compares the two."""

    __slots__ = ("burst", "interval", "most", "old", "slack", "young")

    def __init__(self, rate: Rate, burst: float | None = None, most: int = MAX_RATE_KEYS) -> None:
        self.burst = max(1.0, rate.count if burst is None else burst)
        self.interval = rate.period / rate.count
        """Seconds per token."""
        self.slack = (self.burst - 0.999) * self.interval
        """How far ahead of now a bucket with a token may be. Allows for rounding errors."""
        self.most = max(1, most // 2)
        self.young: dict[Hashable, float] = {}
        """Key: time when its bucket is full again. Empty in `SlidingWindows`."""
        self.old: dict[Hashable, float] = {}

    def acquire(self, name: Hashable, now: float) -> float:
        """Acquire a token. Return 0, or the seconds until one is available."""
        full = self.young.get(name)
        if full is None:
            full = self.old.get(name, now)
            if len(self.young) >= self.most:
                self.rotate()
        if full < now:
            full = now
        if full - now > self.slack:
            return self.retry_after(name, full, now)
        self.young[name] = full + self.interval
        return 0.0

    def reserve(self, name: Hashable, now: float, most: float) -> float:
        """Acquire a future token. Return the seconds until it is available, at most ``most``."""
        full = max(self.young.get(name) or self.old.get(name, now), now)
        seconds = full - now - self.slack
        if seconds > most + CLOCK_TOLERANCE:  # the clock went back
            full, seconds = now, 0.0
        elif seconds > most:
            return most
        if name not in self.young and len(self.young) >= self.most:
            self.rotate()
        self.young[name] = full + self.interval
        return max(seconds, 0.0)

    def rotate(self) -> None:
        """Start a new generation."""
        self.old = self.young.copy()
        self.young.clear()

    def retry_after(self, name: Hashable, full: float, now: float) -> float:
        """Return the seconds until a token is available; 0 if the clock went back."""
        seconds = full - now - self.slack
        if seconds > self.interval + CLOCK_TOLERANCE:
            self.young[name] = now + self.interval
            return 0.0
        self.young[name] = full  # a refused key is in use: keep it
        return seconds

    # --- a bucket shared by several processes: its state is the value of a key in a store
    # ---------------------------

    def available(self, state: State | None, now: float) -> int:
        """Return the whole tokens in a bucket; None is a full one."""
        return int(self.burst - (self._full(state, now) - now) / self.interval + 0.001)

    def spend(self, state: State | None, count: int, now: float) -> State:
        """Return the state after taking ``count`` tokens; a negative count returns tokens."""
        return max(self._full(state, now) + count * self.interval, now), 0.0, 0.0

    def until_token(self, state: State | None, now: float) -> float:
        """Return the seconds until a token is available, or 0."""
        return max(self._full(state, now) - now - self.slack, 0.0)

    def lifetime(self, state: State, now: float) -> float:
        """Return the seconds until the state equals that of a full bucket."""
        return max(state[0] - now, 0.0) + CLOCK_TOLERANCE

    def _full(self, state: State | None, now: float) -> float:
        """Return when the bucket is full: now, if the clock went back by much."""
        full = now if state is None else max(state[0], now)
        return now if full - now > self.burst * self.interval + CLOCK_TOLERANCE else full

    def __len__(self) -> int:
        return len(self.young) + len(self.old)


class SlidingWindows(TokenBuckets):
    """A sliding window per key: the rate holds for any period, without bursts."""

    __slots__ = ("_counts", "_earlier", "_rate")

    def __init__(self, rate: Rate, burst: float | None = None, most: int = MAX_RATE_KEYS) -> None:
        super().__init__(rate, burst, most)
        self._rate = rate
        self._counts: dict[Hashable, State] = {}
        """Key: start of its period, its count, and the count of the previous period."""
        self._earlier: dict[Hashable, State] = {}

    def acquire(self, name: Hashable, now: float) -> float:
        state = self._counts.get(name) or self._earlier.get(name)
        begun, count, before = self._current(state, now)
        wait = self.until_token(state, now)
        self._keep(name, (begun, count if wait else count + 1, before))
        return wait

    def available(self, state: State | None, now: float) -> int:
        begun, count, before = self._current(state, now)
        left = self._rate.count - count - before * (1 - (now - begun) / self._rate.period)
        return max(int(left), 0 if count else 1)

    def spend(self, state: State | None, count: int, now: float) -> State:
        begun, spent, before = self._current(state, now)
        return begun, max(spent + count, 0.0), before

    def until_token(self, state: State | None, now: float) -> float:
        period, most = self._rate.period, self._rate.count
        begun, count, before = self._current(state, now)
        part = (now - begun) / period
        if not count or before * (1 - part) + count + 1 <= most:
            return 0.0
        # The current period alone may exceed the rate; otherwise wait until enough of the previous one has
        # expired.
        free = 1.0 if count + 1 > most else 1 - (most - count - 1) / before
        return max((free - part) * period, MIN_RETRY_DELAY)

    def lifetime(self, state: State, now: float) -> float:
        return 2 * self._rate.period

    def _current(self, state: State | None, now: float) -> State:
        """Return the start of the period, its count, and the count of the previous period."""
        if state is None:
            return now, 0.0, 0.0
        begun, count, before = state
        period = self._rate.period
        passed = (now - begun) // period
        if passed:  # or the clock went back: -1
            return now - (now - begun) % period, 0.0, count if passed == 1 else 0.0
        return begun, count, before

    def _keep(self, name: Hashable, counts: State) -> None:
        if name not in self._counts and len(self._counts) >= self.most:
            self._earlier, self._counts = self._counts, {}
        self._counts[name] = counts

    def __len__(self) -> int:
        return len(self._counts) + len(self._earlier)
