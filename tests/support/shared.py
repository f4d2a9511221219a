"""A store that several servers and processes share, in a file or in Redis, and what time does to its leases."""

import time
from pathlib import Path

from dovetail.stores import RedisStore, SqliteStore, Store

from .redis import RedisServer

_FORGET = "for _, key in ipairs(redis.call('KEYS', '*#lease#*')) do redis.call('DEL', key) end"


class Shared:
    """Where state is kept; ``place`` is what `opened` takes in another process."""

    def __init__(self, file: Path, redis: RedisServer | None = None) -> None:
        self.redis = redis
        self.place = str(file) if redis is None else redis.url
        self.ahead = 0.0
        """Seconds by which the clocks of all processes are fast."""
        if redis is not None:
            redis.ask("FLUSHALL")

    def clock(self) -> float:
        return time.time() + self.ahead

    def store(self) -> Store:
        return opened(self.place, self.ahead)

    def leases_run_out(self) -> None:
        """Advance the clocks by a minute: leases of dead processes have expired."""
        if self.redis is None:
            self.ahead += 60
        else:
            self.redis.ask("EVAL", f'"{_FORGET}"', "0")


def opened(place: str, ahead: float = 0.0) -> Store:
    """The store at ``place``, for a process whose clock is fast."""
    if place.startswith("redis://"):
        return RedisStore(place)
    return SqliteStore(place, clock=lambda: time.time() + ahead)
