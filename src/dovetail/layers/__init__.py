"""What may stand around the calls of a server or a client: guards, memory, and what operators want to see.

``Server(layers=[…])`` and ``Client(layers=[…])`` take them in the order written, the outermost first. `Layer` is the
way to write one; every other name here is one that is ready, in a module of its own.
"""

from __future__ import annotations

from ..drivers.layering import Layer
from .audit import Audit
from .breaker import Breaker
from .budget import Budget
from .cache import Cache
from .concurrency import Concurrency
from .deadline import Deadline
from .log import Log, Timing
from .masking import Masking
from .policy import Policy
from .rate import RateLimit
from .rates import Rate
from .retry import Retry

__all__ = [
    "Audit", "Breaker", "Budget", "Cache", "Concurrency", "Deadline", "Layer", "Log", "Masking", "Policy", "Rate",
    "RateLimit", "Retry", "Timing",
]  # fmt: skip
