"""`Log`: one line of JSON for each request, without its secrets; and `Timing`, how long they take.

``Log`` writes to the logger ``dovetail.calls``, so handlers and levels are those of `logging`.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from ..core.channel import Call, Channel
from ..drivers.layering import Layer, Respond, subject_of
from ..settings import NAME_ECHO
from .bounds import TIMING_NAMES, TIMING_SAMPLES
from .outcomes import code_of, of_error, of_result
from .redaction import one_line, redacted

log = logging.getLogger("dovetail.calls")


def arguments_of(call: Call) -> Any:
    """The arguments of a tool or prompt as plain data; UNSET where there are none, or where they cannot be read."""
    if call.method not in ("tools/call", "prompts/get"):
        return UNSET
    given = call.params.arguments
    try:
        return msgspec.json.decode(given) if isinstance(given, Raw) else given
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return UNSET


class Log(Layer):
    """Log every request: method, name, who, how it ended, milliseconds; ``arguments=True``: what with, redacted."""

    def __init__(
        self, *, arguments: bool = False, level: int = logging.INFO, logger: logging.Logger = log
    ) -> None:
        self._arguments, self._level, self._logger = arguments, level, logger

    async def message(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        begun = time.perf_counter()
        try:
            result = await proceed(call, channel)
        except BaseException as error:
            self._write(call, begun, of_error(error), code_of(error))
            raise
        self._write(call, begun, of_result(result), None)
        return result

    def _write(self, call: Call, begun: float, outcome: str, code: int | None) -> None:
        if not self._logger.isEnabledFor(self._level):
            return
        record: dict[str, Any] = {
            "method": call.method,
            "name": subject_of(call),
            "outcome": outcome,
            "code": code,
            "ms": round((time.perf_counter() - begun) * 1000, 3),
            "revision": call.revision.name,
            "principal": None if call.principal is None else str(call.principal)[:NAME_ECHO],
            "id": call.id,
        }
        given = arguments_of(call) if self._arguments else UNSET
        if given is not UNSET:
            record["arguments"] = redacted(given)
        known = {name: value for name, value in record.items() if value not in (None, "")}
        self._logger.log(self._level, "%s", one_line(known))


class Timing(Layer):
    """Remember how long requests take: ``timing.summary()``. Those over ``slow`` seconds are logged."""

    def __init__(self, *, slow: float | None = None, clock: Callable[[], float] = time.perf_counter) -> None:
        self._slow, self._clock = slow, clock
        self._samples: dict[str, deque[float]] = {}
        self._counts: dict[str, int] = {}

    async def message(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        begun = self._clock()
        try:
            return await proceed(call, channel)
        finally:
            self._took(call, self._clock() - begun)

    def _took(self, call: Call, seconds: float) -> None:
        name = f"{call.method} {subject_of(call)}".strip()
        samples = self._samples.get(name)
        if samples is None:
            if len(self._samples) >= TIMING_NAMES:
                name = "other"
            samples = self._samples.setdefault(name, deque(maxlen=TIMING_SAMPLES))
        samples.append(seconds)
        self._counts[name] = self._counts.get(name, 0) + 1
        if self._slow is not None and seconds > self._slow:
            log.warning("%s", one_line({"slow": name, "ms": round(seconds * 1000, 3), "id": call.id}))

    def summary(self) -> dict[str, dict[str, float]]:
        """Count, mean, median, 95th and 99th percentile and maximum, in seconds, of the latest of each name."""
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
