"""Tools for tests of servers and clients: in-memory connections, a fake clock, recordings, connection faults, and
whether a model picks the right tools.

`choose` and its classes are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .fake_clock import FakeClock
from .faults import Faults
from .in_memory_pair import connect
from .record import Recording, record, replay
from .rerun import Effect, Rerun, rerun

if TYPE_CHECKING:
    from .tool_choice import Case, CaseResult, ChoiceReport, ToolCall, choose

__all__ = [
    "Case", "CaseResult", "ChoiceReport", "Effect", "FakeClock", "Faults", "Recording", "Rerun", "ToolCall", "choose",
    "connect", "record", "replay", "rerun",
]  # fmt: skip

_CHOICE = frozenset({"Case", "CaseResult", "ChoiceReport", "ToolCall", "choose"})


def __getattr__(name: str) -> Any:
    if name not in _CHOICE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(".tool_choice", __name__), name)
    globals()[name] = found
    return found
