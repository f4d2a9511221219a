"""`CircuitBreaker`: refuse calls of a tool that keeps failing, until it recovers.

```python
Server("shop", middleware=[CircuitBreaker(failure_threshold=5, reset_timeout=60)])
```

Each tool has one circuit. A *closed* circuit accepts calls and counts consecutive failures: unexpected
exceptions and timeouts, but not bad arguments, refusals or a `ToolError`. After ``failure_threshold``
failures it *opens*: calls are refused at once with 1008 (erlmcp: 1086) and a retry delay. After
``reset_timeout`` seconds it is *half open* and accepts one probe call at a time. ``success_threshold``
successful probes close it, one failure opens it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, get_args

from msgspec import Raw, Struct

from ..drivers.middleware_chain import Middleware, Next, Request, tool_standing_for
from ..errors import ProtocolError
from ..model import CallToolResult, GetPromptResult, PaginatedResult, ReadResourceResult
from ..server import Server
from ..settings import check_kinds
from ..settings.parameter_kinds import CLOCK, SECONDS, WHOLE
from .call_outcome import of_error, of_result
from .health import Health
from .token_bucket import MIN_RETRY_DELAY, TRACKED_NAMES

CIRCUIT_FAILURE_THRESHOLD: Final = 5
"""erlmcp: failures that open a circuit."""
CIRCUIT_RESET_TIMEOUT: Final = 60.0
"""erlmcp: seconds for which a circuit stays open."""
CIRCUIT_SUCCESS_THRESHOLD: Final = 2
"""erlmcp: successes that close a circuit again."""


_OVER: Final = (CallToolResult, Raw)
_OVER_FOR_TOOL: Final = (Raw, ReadResourceResult, GetPromptResult, PaginatedResult)
"""Final results of the requests that tools such as ``read_resource`` stand for."""
State = Literal["closed", "half_open", "open"]
STATES: Final[tuple[State, ...]] = get_args(State)


class Circuit(Struct, eq=False):
    """The state of one tool or upstream."""

    state: State = "closed"
    failures: int = 0
    """Consecutive failures."""
    successes: int = 0
    """Successful probes since it is half open."""
    opened: float = 0.0
    probing: bool = False
    """A probe call is running."""


class CircuitBreaker(Middleware):
    """Refuse calls of a tool that has failed too often.

    ``per`` selects the circuit of a call: "tool", or a function from the request to the name of an upstream
    (None: no circuit). An open circuit of an upstream is refused with 1009 (erlmcp: -32039).
    """

    def __init__(
        self,
        failure_threshold: int = CIRCUIT_FAILURE_THRESHOLD,
        reset_timeout: float = CIRCUIT_RESET_TIMEOUT,
        success_threshold: int = CIRCUIT_SUCCESS_THRESHOLD,
        *,
        per: Literal["tool"] | Callable[[Request], str | None] = "tool",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set when a circuit opens and closes.

        Args:
            failure_threshold: Failures in a row after which the circuit opens and calls are refused.
            reset_timeout: Seconds before an open circuit lets one call through as a test.
            success_threshold: Successful test calls after which the circuit closes.
            per: "tool", or a function from a request to the name of an upstream; ``None`` as its result: no
                circuit.
        """
        check_kinds(
            {
                "failure_threshold": WHOLE,
                "reset_timeout": SECONDS,
                "success_threshold": WHOLE,
                "clock": CLOCK,
            },
            locals(),
        )
        if failure_threshold < 1 or success_threshold < 1 or reset_timeout <= 0:
            raise ValueError(
                "CircuitBreaker needs failure_threshold >= 1, reset_timeout > 0 and success_threshold >= 1"
            )
        if per != "tool" and not callable(per):
            raise ValueError(f"per must be 'tool' or a function that names an upstream, not {per!r}")
        self._failures, self._reset, self._successes = failure_threshold, reset_timeout, success_threshold
        self._clock = clock
        self._upstream = None if per == "tool" else per
        self._circuits: dict[str, Circuit] = {}
        self._health: Health | None = None
        """The health of the server, to which upstream failures are reported."""
        self.refused = 0
        self.on_change: Callable[[str, State], None] | None = None
        """Callbacks that run when a circuit opens, half opens or closes."""

    def attach(self, service: Any) -> None:
        if isinstance(service, Server) and self._upstream is not None:
            self._health = service.health

    @property
    def states(self) -> dict[str, State]:
        """The circuits that are not closed, or have recent failures."""
        return {name: circuit.state for name, circuit in self._circuits.items()}

    def measure(self) -> Iterable[tuple[str, tuple[str, ...], float]]:
        return [
            ("dovetail_circuit_breaker_state", (name,), STATES.index(circuit.state))
            for name, circuit in self._circuits.items()
        ]

    async def call_tool(self, request: Request, call_next: Next) -> Struct | Raw:
        return await self._guarded(self._name_of(request), request, call_next)

    async def _for_tool(self, request: Request, call_next: Next) -> Struct | Raw:
        """Guard a request that a tool such as ``read_resource`` stands for."""
        tool = tool_standing_for(request.call) if self._upstream is None else None
        return await self._guarded(tool, request, call_next)

    read_resource = get_prompt = list_resources = list_prompts = _for_tool

    async def _guarded(self, name: str | None, request: Request, call_next: Next) -> Struct | Raw:
        if name is None:
            return await call_next(request)
        circuit = self._circuits.get(name)
        if circuit is not None and circuit.state != "closed":
            self._start_probe(name, circuit)
        try:
            result = await call_next(request)
        except BaseException as error:
            self._record_outcome(name, of_error(error))
            raise
        # An input request or a new task is not a success yet.
        over = type(result) in _OVER or isinstance(result, _OVER_FOR_TOOL)
        outcome = of_result(result) if over else "begun"
        if outcome == "broken" or name in self._circuits:
            self._record_outcome(name, outcome)
        return result

    def _name_of(self, request: Request) -> str | None:
        return request.name if self._upstream is None else self._upstream(request)

    def _start_probe(self, name: str, circuit: Circuit) -> None:
        """Start a probe call on an open circuit.

        Raises:
            ProtocolError: the reset timeout has not passed, or another probe is running.
        """
        left = circuit.opened + self._reset - self._clock()
        if circuit.state == "open" and 0 < left <= self._reset:
            self._refuse(name, left)
        if circuit.probing:
            self._refuse(name, min(1.0, self._reset))
        if circuit.state == "open":
            circuit.successes = 0
            self._set_state(name, circuit, "half_open")
        circuit.probing = True

    def _refuse(self, name: str, left: float) -> None:
        self.refused += 1
        data = {"retryAfterMs": round(max(left, MIN_RETRY_DELAY) * 1000), "name": name}
        if self._upstream is None:
            text = "the circuit breaker of this tool is open after repeated failures; retry later"
            raise ProtocolError("circuit_open", text, data=data)
        text = "the circuit breaker of the upstream of this tool is open after repeated failures; retry later"
        raise ProtocolError("tool_dependency_failed", text, data=data)

    def _record_outcome(self, name: str, outcome: str) -> None:
        circuit = self._circuits.get(name)
        if circuit is None:
            if outcome != "broken":
                return
            circuit = self._circuits[name] = Circuit()
            self._make_room()
        tried, circuit.probing = circuit.probing, False
        if outcome == "broken":
            circuit.failures += 1
            if circuit.state == "half_open" or circuit.failures >= self._failures:
                circuit.opened = self._clock()
                self._set_state(name, circuit, "open")
        elif outcome in ("ok", "failed") and circuit.state == "closed":
            del self._circuits[name]
        elif outcome in ("ok", "failed") and tried and circuit.state == "half_open":
            circuit.successes += 1
            if circuit.successes >= self._successes:
                self._set_state(name, circuit, "closed")
                del self._circuits[name]

    def _make_room(self) -> None:
        if len(self._circuits) > TRACKED_NAMES:
            for name, circuit in self._circuits.items():
                if circuit.state == "closed":
                    del self._circuits[name]
                    return

    def _set_state(self, name: str, circuit: Circuit, state: State) -> None:
        if circuit.state != state:
            circuit.state = state
            if self._health is not None:
                self._health.report(f"upstream:{name}", ok=state == "closed")
            if self.on_change is not None:
                self.on_change(name, state)
