"""How much is left: a token bucket and a sliding window, each for many names at once, in tables that do not grow.

A *bucket* of ``burst`` tokens fills with ``rate`` tokens a second; a message takes one. It is kept as the one moment at
which it is full again, so taking a token is one comparison and one addition. A *window* counts the messages of the last
``period`` seconds, the part of the period before weighted by how much of it still counts.

A table keeps two generations: what is used lies in the young one, and when that is full the old one is forgotten. So
ten thousand names seen once do not push out the one that is seen all the time.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Final

from msgspec import Struct

RATE_KEYS: Final = 20_000
"""Clients, principals, sessions, addresses or tools one rate is kept for at once; those not seen for long go
first."""
SHORTEST_WAIT: Final = 0.001
"""The shortest ``retry_after`` of a refusal, in seconds."""
CLOCK_SLIP: Final = 1.0
"""Seconds by which a clock must have gone back before it is noticed."""
TRACKED_NAMES: Final = 10_000
"""Names (of tools, principals, sessions) that a middleware holds state for."""


_PERIODS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*(s|m|h|d)\s*")


State = tuple[float, float, float]
"""What a store holds of a window: when its period began, and two counts; of a bucket: when it is full, and zeros."""


class Rate(Struct, frozen=True):
    """``count`` messages in ``period`` seconds."""

    count: float
    period: float

    @classmethod
    def read(cls, text: str | float | Rate) -> Rate:
        """Read "100/s", "20/m", "1000/h", "5/d"; a bare number is so many a second.

        Raises:
            ValueError: it is none of these, or nothing could ever pass.
        """
        if isinstance(text, Rate):
            return text
        match = _RATE.fullmatch(text) if isinstance(text, str) else None
        count = float(match[1]) if match else 0.0 if isinstance(text, str) else float(text)
        if not 0 < count < float("inf"):
            raise ValueError(f"a rate is written like '100/s' or '20/m', not {text!r}")
        return cls(count, _PERIODS[match[2]] if match else 1.0)


class Buckets:
    """One token bucket for each name. `RateLimit` takes a token that is there by itself; a test compares the two."""

    __slots__ = ("burst", "interval", "most", "old", "slack", "young")

    def __init__(self, rate: Rate, burst: float | None = None, most: int = RATE_KEYS) -> None:
        self.burst = max(1.0, rate.count if burst is None else burst)
        self.interval = rate.period / rate.count
        """Seconds one token takes."""
        self.slack = (self.burst - 0.999) * self.interval
        """How far ahead of now a bucket may be that still has a token; sums of fractions are never exact."""
        self.most = max(1, most // 2)
        self.young: dict[Hashable, float] = {}
        """Name → when its bucket is full again. Always the same table; a `Windows` has nothing in it."""
        self.old: dict[Hashable, float] = {}

    def take(self, name: Hashable, now: float) -> float:
        """Take a token: 0, or the seconds until there will be one."""
        full = self.young.get(name)
        if full is None:
            full = self.old.get(name, now)
            if len(self.young) >= self.most:
                self.turn()
        if full < now:
            full = now
        if full - now > self.slack:
            return self.wait(name, full, now)
        self.young[name] = full + self.interval
        return 0.0

    def line_up(self, name: Hashable, now: float, most: float) -> float:
        """Take a token that may not be there yet: the seconds until it is, ``most`` of them at most."""
        full = max(self.young.get(name) or self.old.get(name, now), now)
        seconds = full - now - self.slack
        if seconds > most + CLOCK_SLIP:  # only a clock that went back says so
            full, seconds = now, 0.0
        elif seconds > most:
            return most
        if name not in self.young and len(self.young) >= self.most:
            self.turn()
        self.young[name] = full + self.interval
        return max(seconds, 0.0)

    def turn(self) -> None:
        """A new generation."""
        self.old = self.young.copy()
        self.young.clear()

    def wait(self, name: Hashable, full: float, now: float) -> float:
        """Seconds until there is a token; 0 when only a clock that went back says that there is none."""
        seconds = full - now - self.slack
        if seconds > self.interval + CLOCK_SLIP:
            self.young[name] = now + self.interval
            return 0.0
        self.young[name] = full  # who is refused is there, and is not forgotten
        return seconds

    # --- a bucket that several processes share: its state is the value of a key in a store --------------------------

    def available(self, state: State | None, now: float) -> int:
        """The whole tokens in a bucket; None is the state of a full one."""
        return int(self.burst - (self._full(state, now) - now) / self.interval + 0.001)

    def spend(self, state: State | None, count: int, now: float) -> State:
        """The state after ``count`` tokens were taken; a negative count returns tokens."""
        return max(self._full(state, now) + count * self.interval, now), 0.0, 0.0

    def until_token(self, state: State | None, now: float) -> float:
        """Seconds until there is a token; 0 when there is one."""
        return max(self._full(state, now) - now - self.slack, 0.0)

    def lifetime(self, state: State, now: float) -> float:
        """Seconds after which the state is that of a full bucket."""
        return max(state[0] - now, 0.0) + CLOCK_SLIP

    def _full(self, state: State | None, now: float) -> float:
        """When the bucket is full; a clock that went back by much makes it full now."""
        full = now if state is None else max(state[0], now)
        return now if full - now > self.burst * self.interval + CLOCK_SLIP else full

    def __len__(self) -> int:
        return len(self.young) + len(self.old)


class Windows(Buckets):
    """One sliding window for each name: as many as the rate says in any period, whenever they come."""

    __slots__ = ("_counts", "_earlier", "_rate")

    def __init__(self, rate: Rate, burst: float | None = None, most: int = RATE_KEYS) -> None:
        super().__init__(rate, burst, most)
        self._rate = rate
        self._counts: dict[Hashable, State] = {}
        """Name → when its period began, what came in it, what came in the one before."""
        self._earlier: dict[Hashable, State] = {}

    def take(self, name: Hashable, now: float) -> float:
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
        # What came in this period alone may be too much already; if not, wait until enough of the last is gone.
        free = 1.0 if count + 1 > most else 1 - (most - count - 1) / before
        return max((free - part) * period, SHORTEST_WAIT)

    def lifetime(self, state: State, now: float) -> float:
        return 2 * self._rate.period

    def _current(self, state: State | None, now: float) -> State:
        """When the period began, what came in it, and what came in the one before."""
        if state is None:
            return now, 0.0, 0.0
        begun, count, before = state
        period = self._rate.period
        passed = (now - begun) // period
        if passed:  # also after a clock that went back: -1
            return now - (now - begun) % period, 0.0, count if passed == 1 else 0.0
        return begun, count, before

    def _keep(self, name: Hashable, counts: State) -> None:
        if name not in self._counts and len(self._counts) >= self.most:
            self._earlier, self._counts = self._counts, {}
        self._counts[name] = counts

    def __len__(self) -> int:
        return len(self._counts) + len(self._earlier)
