"""What guards cost a call that they let pass: Python calls of ours, and time."""

import sys
import time
from typing import Any

import pytest

from dovetail import Server
from dovetail.core.channel import Call
from dovetail.core.principal import Principal
from dovetail.drivers.middleware_chain import Request
from dovetail.middleware import CircuitBreaker, ConcurrencyLimit, RateLimit
from dovetail.stores import MemoryStore
from tests.budget.test_http import Measured
from tests.support.aio import run
from tests.support.peer import MODERN
from tests.support.web import modern, modern_headers

RATE_CALLS = 5
METRIC_CALLS = 4
GUARD_CALLS = 12
REFUSED_CALLS = 43
"""All of a message that a rate limit refuses: it is read and answered, and nothing is looked for twice."""
BLOCKED_CALLS = 24
"""All of one whose client is blocked: it is not read."""
WRITING_CALLS = 26
"""What the built-in server takes to parse the request and to write a response with its status."""


def serving(*middleware: Any, **options: Any) -> Server:
    server = Server("budget", middleware=middleware, **options)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return server


def one_call() -> Call:
    codec = Server("x").dispatcher.admission.codecs[MODERN]
    return Call(
        id=1, method="tools/call", params=None, revision=codec.revision, codec=codec, capabilities=None,  # type: ignore[arg-type]
        principal=Principal("ann", "https://id.example"),
    )  # fmt: skip


async def cost(server: Server, face: str) -> int:
    """Calls one ``tools/call`` takes once everything is warm."""
    measured = Measured(server, face)
    message = modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    for _ in range(3):
        _, body = await measured.post(message, modern_headers(message))
        assert b'"result"' in body
    return len(measured.calls)


@pytest.mark.parametrize("face", ["asgi"])
@pytest.mark.parametrize(
    "options",
    [
        {"per_client": "1000/s"},
        {"per_principal": "1000/s", "per_tool": "1000/s"},
        {"per_address": "1000/s"},
        {"total": "1000/s"},
        {"per_client": "1000/s", "per_tool": "1000/s"},
    ],
    ids=lambda options: "+".join(options),
)
def test_a_rate_limit_costs_five_calls_at_most(face: str, options: dict[str, str]) -> None:
    @run
    async def scenario() -> None:
        bare = await cost(serving(), face)
        assert await cost(serving(RateLimit(**options)), face) - bare <= RATE_CALLS

    scenario()


@pytest.mark.parametrize(
    ("options", "most"), [({}, REFUSED_CALLS), ({"block_period": 60, "block_threshold": 1}, BLOCKED_CALLS)]
)
@run
async def test_a_refused_message_costs_little_and_that_of_a_blocked_client_less(
    options: Any, most: int
) -> None:
    measured = Measured(serving(RateLimit(per_client="1/h", **options)), "builtin")
    message = modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    for _ in range(4):
        _, body = await measured.post(message, modern_headers(message))
    assert b'"error"' in body
    assert len(measured.calls) <= most + WRITING_CALLS, "\n".join(measured.calls)


@run
async def test_a_rate_that_is_shared_over_the_store_costs_no_more() -> None:
    limit = RateLimit(per_principal="1000000/s", total="1000000/s")
    server = serving(limit, store=MemoryStore())
    call, calls = one_call(), 0

    async def respond(request: Any) -> Any: ...

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code is not respond.__code__

    limited = limit.wrap(respond)
    async with server.running():
        for _ in range(4):
            await limited(Request(call, None))  # tokens are reserved: 1, then 2, then 4
        sys.setprofile(count)
        try:
            passing = limited(Request(call, None))
        finally:
            sys.setprofile(None)
        await passing
        assert 0 < calls <= RATE_CALLS


@pytest.mark.parametrize("face", ["asgi"])
def test_all_guards_together_cost_twelve_calls_at_most(face: str) -> None:
    @run
    async def scenario() -> None:
        guards = [
            RateLimit(per_client="1000/s", per_tool="1000/s"),
            ConcurrencyLimit(per_tool=8, per_principal=8, total=100),
            CircuitBreaker(),
        ]
        assert await cost(serving(*guards), face) - await cost(serving(), face) <= GUARD_CALLS

    scenario()


@pytest.mark.parametrize("face", ["asgi"])
def test_metrics_cost_four_calls_at_most_and_nothing_when_off(face: str) -> None:
    @run
    async def scenario() -> None:
        bare, counted = serving(), serving()
        before = await cost(bare, face)
        assert counted.metrics.read("dovetail_calls_total") == 0
        assert await cost(counted, face) - before <= METRIC_CALLS
        assert counted.metrics.read("dovetail_calls_total", name="add", outcome="ok") == 3

    scenario()


def test_a_rate_limit_costs_a_microsecond_at_most() -> None:
    """As a share of work that takes a microsecond where this was measured (the limit takes half of it): no clock of a
    busy machine is trusted, only the best of many short rounds of each, in CPU time, taken in turns."""
    request = Request(one_call(), None)  # type: ignore[arg-type]
    table = dict.fromkeys(range(12), 0.0)

    def respond(request: Any) -> Any: ...

    def microsecond(request: Any) -> None:
        for name in range(12):
            table[name] = table.get(name, 0.0) + 1.0

    def seconds(function: Any, count: int = 500) -> float:
        begun = time.thread_time()
        for _ in range(count):
            function(request)
        return time.thread_time() - begun

    limited = RateLimit(per_principal="1000000000/s").wrap(respond)
    rounds = [(seconds(limited), seconds(respond), seconds(microsecond)) for _ in range(200)]
    best, bare, unit = (min(column) for column in zip(*rounds, strict=True))
    assert best - bare <= unit, f"{(best - bare) / unit:.2f} µs"
