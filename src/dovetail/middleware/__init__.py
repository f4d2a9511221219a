"""Middleware for servers and clients: rate limits, circuit breaker, timeouts, retries, caching, audit,
logging.

``Server(middleware=[…])`` and ``Client(middleware=[…])`` apply them in the order written, outermost first.
Inherit `Middleware` (in `drivers/middleware_chain.py`) to write your own. Names are imported when first used.
`health` watches the components of a server.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..drivers.middleware_chain import Component, Middleware, Request
    from ..telemetry.tracing import Tracing
    from .audit import Audit
    from .caching import Caching
    from .circuit_breaker import CircuitBreaker
    from .client_workarounds import ClientWorkarounds
    from .concurrency_limit import ConcurrencyLimit
    from .logging import Logging, Timing
    from .policy import Policy
    from .rate_limit import RateLimit
    from .redaction import Redaction
    from .response_limit import ResponseLimit
    from .retry import Retry
    from .timeout import Timeout
    from .token_bucket import Rate

__all__ = [
    "Audit", "Caching", "CircuitBreaker", "ClientWorkarounds", "Component", "ConcurrencyLimit", "Logging", "Middleware",
    "Policy", "Rate", "RateLimit", "Redaction", "Request", "ResponseLimit", "Retry", "Timeout", "Timing", "Tracing",
]  # fmt: skip

_CHAIN: Final = "dovetail.drivers.middleware_chain"
_HOMES: Final = {
    "Audit": "dovetail.middleware.audit",
    "Caching": "dovetail.middleware.caching",
    "CircuitBreaker": "dovetail.middleware.circuit_breaker",
    "ClientWorkarounds": "dovetail.middleware.client_workarounds",
    "Component": _CHAIN,
    "ConcurrencyLimit": "dovetail.middleware.concurrency_limit",
    "Logging": "dovetail.middleware.logging",
    "Middleware": _CHAIN,
    "Policy": "dovetail.middleware.policy",
    "Rate": "dovetail.middleware.token_bucket",
    "RateLimit": "dovetail.middleware.rate_limit",
    "Redaction": "dovetail.middleware.redaction",
    "Request": _CHAIN,
    "ResponseLimit": "dovetail.middleware.response_limit",
    "Retry": "dovetail.middleware.retry",
    "Timeout": "dovetail.middleware.timeout",
    "Timing": "dovetail.middleware.logging",
    "Tracing": "dovetail.telemetry.tracing",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
