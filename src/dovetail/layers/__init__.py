"""What may stand around the calls of a server or a client: guards, memory, and what operators want to see.

``Server(layers=[…])`` and ``Client(layers=[…])`` take them in the order written, the outermost first. `Layer` is the
way to write one; every other name here is one that is ready, in a module of its own.
"""

from __future__ import annotations

from ..drivers.layering import Layer
from .breaker import Breaker
from .concurrency import Concurrency
from .rate import RateLimit
from .rates import Rate

__all__ = ["Breaker", "Concurrency", "Layer", "Rate", "RateLimit"]
