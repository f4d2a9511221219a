"""Enable tracing and metrics if the program uses OpenTelemetry; checked when a server or client starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ..errors import DovetailError
from ..server import Server

if TYPE_CHECKING:
    from ..settings import HttpOptions

_VARIABLES: Final = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER")

_SWITCH: Final = {"": False, "0": False, "false": False, "1": True, "true": True}


def wanted() -> list[Any]:
    """Return the providers of the program. OpenTelemetry is imported only if the program has imported it."""
    if "opentelemetry" not in sys.modules and not any(name in os.environ for name in _VARIABLES):
        return []
    try:
        from .tracing import providers
    except DovetailError:  # the environment requests a provider that is not installed
        return []
    return list(providers())


def with_tracing(middleware: Sequence[Any]) -> Sequence[Any]:
    """Return the middleware with `Tracing` first, if the program uses OpenTelemetry and has not added it."""
    if not wanted():
        return middleware
    from .tracing import Tracing

    traced = any(isinstance(each, Tracing) for each in middleware)
    return middleware if traced else (Tracing(), *middleware)


def instrument(server: Server) -> None:
    """Trace ``server`` and export its metrics, if the program uses OpenTelemetry; only once."""
    if not wanted():
        return
    from .opentelemetry_metrics import export
    from .tracing import Tracing

    if not any(isinstance(each, Tracing) for each in server.middleware):
        server.dispatcher.pipeline.add(Tracing())
    export(server)


def metrics_wanted(options: HttpOptions) -> bool | str:
    """Return whether the options or ``DOVETAIL_METRICS`` enable metrics, and the shared folder if they name one."""
    value = os.environ.get("DOVETAIL_METRICS", "")
    return options.metrics or _SWITCH.get(value.lower(), value)
