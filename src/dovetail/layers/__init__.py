"""What may stand around the calls of a server or a client: guards, memory, and what operators want to see.

``Server(layers=[…])`` and ``Client(layers=[…])`` take them in the order written, the outermost first. `Layer` is the
way to write one; every other name here is one that is ready, in a module of its own.
A name is loaded when it is first used: a server without layers has none in memory.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..drivers.layering import Layer
    from ..telemetry.tracing import Tracing
    from .audit import Audit
    from .breaker import Breaker
    from .budget import Budget
    from .cache import Cache
    from .concurrency import Concurrency
    from .deadline import Deadline
    from .log import Log, Timing
    from .masking import Masking
    from .policy import Policy
    from .quirks import Quirks
    from .rate import RateLimit
    from .rates import Rate
    from .retry import Retry

__all__ = [
    "Audit", "Breaker", "Budget", "Cache", "Concurrency", "Deadline", "Layer", "Log", "Masking", "Policy", "Quirks",
    "Rate", "RateLimit", "Retry", "Timing", "Tracing",
]  # fmt: skip

_HOMES: Final = {
    "Layer": "dovetail.drivers.layering",
    "Rate": "dovetail.layers.rates",
    "RateLimit": "dovetail.layers.rate",
    "Timing": "dovetail.layers.log",
    "Tracing": "dovetail.telemetry.tracing",
}
"""Where a name lives, if not in the module that is called like it."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES.get(name) or f"{__name__}.{name.lower()}"), name)
    globals()[name] = value
    return value
