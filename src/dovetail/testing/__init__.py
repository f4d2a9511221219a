"""Tools for tests of servers and clients: in-memory connections, a fake clock, recordings, and connection faults."""

from .fake_clock import FakeClock
from .faults import Faults
from .in_memory_pair import connect
from .record import Recording, record, replay
from .rerun import Effect, Rerun, rerun

__all__ = ["Effect", "FakeClock", "Faults", "Recording", "Rerun", "connect", "record", "replay", "rerun"]
