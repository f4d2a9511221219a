"""Whether a program wants OpenTelemetry or metrics. Checked when a server starts or a client is made, not later."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ..errors import DovetailError

if TYPE_CHECKING:
    from ..server import Server
    from ..settings import HttpOptions

_VARIABLES: Final = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER")

_SWITCH: Final = {"": False, "0": False, "false": False, "1": True, "true": True}


def wanted() -> list[Any]:
    """The providers there are. A program that has set one has loaded OpenTelemetry: otherwise we do not either."""
    if "opentelemetry" not in sys.modules and not any(name in os.environ for name in _VARIABLES):
        return []
    try:
        from .tracing import providers
    except DovetailError:  # what the environment asks for is not installed
        return []
    return list(providers())


def with_tracing(middleware: Sequence[Any]) -> Sequence[Any]:
    """The middleware of a client or server, what traces first, if anybody wants that and has not said where."""
    if not wanted():
        return middleware
    from .tracing import Tracing

    traced = any(isinstance(each, Tracing) for each in middleware)
    return middleware if traced else (Tracing(), *middleware)


def instrument(server: Server) -> None:
    """Trace ``server``, and tell its numbers to OpenTelemetry, if anybody wants that; once."""
    if not wanted():
        return
    from .opentelemetry_metrics import export
    from .tracing import Tracing

    if not any(isinstance(each, Tracing) for each in server.middleware):
        server.add_middleware(Tracing())
    export(server)


def metrics_wanted(options: HttpOptions) -> bool | str:
    """Whether the options or ``DOVETAIL_METRICS`` ask for metrics; the shared folder of the processes, if it is one."""
    value = os.environ.get("DOVETAIL_METRICS", "")
    return options.metrics or _SWITCH.get(value.lower(), value)
