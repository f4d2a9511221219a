"""For tests of servers and clients: pairs in memory, a clock in your hand, recordings, and faults on demand."""

from .fake_clock import FakeClock
from .faults import Faults
from .in_memory_pair import connect
from .record import Recording, record, replay
from .rerun import Effect, Rerun, rerun

__all__ = ["Effect", "FakeClock", "Faults", "Recording", "Rerun", "connect", "record", "replay", "rerun"]
