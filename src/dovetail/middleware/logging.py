"""`Logging`: one line of JSON per request with secrets redacted; and `Timing`: durations of requests.

`Logging` writes to the logger ``dovetail.calls``; configure handlers and levels with the module `logging`.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET, Raw, Struct

from ..drivers.middleware_chain import Middleware, Next, Request
from ..errors import NAME_ECHO
from ..settings import check_kinds
from ..settings.parameter_kinds import CLOCK, FLAG, SECONDS, WHOLE, or_none
from ..telemetry.terminal_sanitizer import utc_time
from .call_outcome import code_of, of_error, of_result
from .sensitive_data import one_line, redacted

MAX_TIMING_NAMES: Final = 500
"""Names that are timed separately."""
TIMING_SAMPLES: Final = 1000
"""The latest durations that are stored for each name."""


log = logging.getLogger("dovetail.calls")


class Logging(Middleware):
    """Log every request: method, name, principal, outcome and milliseconds."""

    def __init__(
        self,
        *,
        arguments: bool = False,
        json: bool = False,
        level: int = logging.INFO,
        logger: logging.Logger | None = None,
    ) -> None:
        """Set what to log.

        Args:
            arguments: Whether to log the arguments, with secrets redacted.
            json: Whether to write JSON lines to stderr, with a time and nothing else on the line. Otherwise the
                handlers of the logger decide how a line looks.
            level: The level of the log records.
            logger: The logger that receives them; by default ``dovetail.calls``.
        """
        check_kinds(
            {
                "arguments": FLAG,
                "json": FLAG,
                "level": WHOLE,
                "logger": (logging.Logger | None, "a logger, or None"),
            },
            locals(),
        )
        if logger is None:
            logger = _json_logger() if json else log
        self._arguments, self._json, self._level, self._logger = arguments, json, level, logger

    async def message(self, request: Request, call_next: Next) -> Struct | Raw:
        begun = time.perf_counter()
        try:
            result = await call_next(request)
        except BaseException as error:
            self._write(request, begun, of_error(error), code_of(error))
            raise
        self._write(request, begun, of_result(result), None)
        return result

    def _write(self, request: Request, begun: float, outcome: str, code: int | None) -> None:
        if not self._logger.isEnabledFor(self._level):
            return
        call = request.call
        record: dict[str, Any] = {
            "method": call.method,
            "name": request.name[:NAME_ECHO],
            "outcome": outcome,
            "code": code,
            "ms": round((time.perf_counter() - begun) * 1000, 3),
            "revision": call.revision.name,
            "principal": None if call.principal is None else str(call.principal)[:NAME_ECHO],
            "id": call.id,
        }
        given = request.arguments if self._arguments else UNSET
        if given is not UNSET:
            record["arguments"] = redacted(given)
        if self._json:
            record = {
                "time": utc_time(time.time()),
                "level": logging.getLevelName(self._level).lower(),
                **record,
            }
        known = {name: value for name, value in record.items() if value not in (None, "")}
        self._logger.log(self._level, "%s", one_line(known))


def _json_logger() -> logging.Logger:
    """A logger whose lines go to stderr as they are, whatever the other handlers of the process add to theirs."""
    logger = logging.getLogger("dovetail.calls.json")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.DEBUG)
    return logger


class Timing(Middleware):
    """Measure how long requests take: ``timing.summary()``."""

    def __init__(
        self, *, slow_threshold: float | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Set when a request counts as slow.

        Args:
            slow_threshold: Seconds above which a request is logged as a warning. ``None``: never.
        """
        check_kinds(
            {
                "slow_threshold": or_none(SECONDS),
                "clock": CLOCK,
            },
            locals(),
        )
        self._slow, self._clock = slow_threshold, clock
        self._samples: dict[str, deque[float]] = {}
        self._counts: dict[str, int] = {}

    async def message(self, request: Request, call_next: Next) -> Struct | Raw:
        begun = self._clock()
        try:
            return await call_next(request)
        finally:
            self._took(request, self._clock() - begun)

    def _took(self, request: Request, seconds: float) -> None:
        name = f"{request.method} {request.name[:NAME_ECHO]}".strip()
        samples = self._samples.get(name)
        if samples is None:
            if len(self._samples) >= MAX_TIMING_NAMES:
                name = "other"
            samples = self._samples.setdefault(name, deque(maxlen=TIMING_SAMPLES))
        samples.append(seconds)
        self._counts[name] = self._counts.get(name, 0) + 1
        if self._slow is not None and seconds > self._slow:
            log.warning("%s", one_line({"slow": name, "ms": round(seconds * 1000, 3), "id": request.call.id}))

    def summary(self) -> dict[str, dict[str, float]]:
        """Return count, mean, median, 95th and 99th percentile and maximum, in seconds, of recent requests by
        name.
        """
        return {
            name: {"count": self._counts[name], **_summary(sorted(samples))}
            for name, samples in self._samples.items()
        }


def _summary(samples: list[float]) -> dict[str, float]:
    def at(part: float) -> float:
        return samples[min(len(samples) - 1, int(part * len(samples)))]

    return {
        "mean": sum(samples) / len(samples),
        "p50": at(0.5),
        "p95": at(0.95),
        "p99": at(0.99),
        "max": samples[-1],
    }
