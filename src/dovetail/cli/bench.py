"""``dovetail bench TARGET [TOOL key=value …]``: how fast a server answers, seen from our client.

Without a tool the cheapest request the server knows is sent: ``ping``, or ``server/discover`` where there is none.
The figures include the client's own share; `python -m bench` in the repository compares servers without it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from ..client import Client
from ..errors import DovetailError
from ..settings import BENCH_WARM_UP, Limits, Reconnect
from ..telemetry.terminal import log_to_stderr, printable
from ..transports.running import fast_loop
from .call import as_schema_wants, client_of, client_parser, read_pairs
from .output import Printer

Request = Callable[[], Awaitable[Any]]


class Measurement(Struct, rename="camel"):
    """One run with so many requests in flight."""

    in_flight: int
    requests: int
    errors: int
    seconds: float
    rate: float
    p50: float
    p95: float
    p99: float
    slowest: float
    """Milliseconds, like the percentiles."""


def main(command: str, arguments: Sequence[str]) -> int:
    """Measure a server; the exit status is 1 when a request failed."""
    options = _parser().parse_intermixed_args(list(arguments))
    log_to_stderr()
    try:
        values = read_pairs(options.values, typed=True)
        levels = [int(word) for word in options.in_flight.split(",")]
        if min(levels) < 1 or options.seconds <= 0:
            raise ValueError("--in-flight and --seconds must be positive")
        # A lost connection is a finding, not something to smooth over.
        limits = Limits(pending=max(Limits().pending, *levels))
        client = client_of(options, reconnect=Reconnect(enabled=False), limits=limits)
    except (ValueError, TypeError) as error:
        sys.stderr.write(f"dovetail bench: {error}\n")
        return 2
    try:
        # With uvloop, where it is installed, less of the figures is our own share.
        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            return runner.run(_run(client, options, values, levels))
    except DovetailError as error:
        sys.stderr.write(f"dovetail bench: {printable(error.message)}\n")
        return 1


async def _run(client: Client, options: argparse.Namespace, values: dict[str, Any], levels: list[int]) -> int:
    begun = time.perf_counter()
    async with client:
        connected = (time.perf_counter() - begun) * 1000
        what, request = await _request(client, options.tool, values)
        await request()  # a first failure is told as it is, not counted
        first = (time.perf_counter() - begun) * 1000
        for _ in range(BENCH_WARM_UP):
            await request()
        found = [await measure(request, level, options.seconds) for level in levels]
    if options.json:
        times = {"connectMs": connected, "firstAnswerMs": first}
        Printer(json=True).json({"revision": client.revision, "request": what, **times, "runs": found})
    else:
        sys.stdout.write(_table(str(client.revision), what, connected, first, found))
    return 1 if any(run.errors for run in found) else 0


async def _request(client: Client, tool: str | None, values: dict[str, Any]) -> tuple[str, Request]:
    """What is sent again and again."""
    if tool is None:
        return "ping", client.ping
    known = {one.name: one for one in await client.list_tools()}.get(tool)
    arguments = as_schema_wants(values, {} if known is None else known.input_schema)
    return f"tools/call {tool}", lambda: client.call_tool(tool, arguments)


async def measure(request: Request, in_flight: int, seconds: float) -> Measurement:
    """Keep ``in_flight`` requests under way for ``seconds``."""
    latencies: list[float] = []
    errors = 0
    clock = time.perf_counter
    begun = clock()
    until = begun + seconds

    async def worker() -> None:
        nonlocal errors
        while (sent := clock()) < until:
            try:
                await request()
                latencies.append((clock() - sent) * 1000)
            except DovetailError:
                errors += 1
                # A dead connection fails at once; do not spin without a turn of the loop.
                await asyncio.sleep(0)

    await asyncio.gather(*(worker() for _ in range(in_flight)))
    took = clock() - begun
    latencies.sort()

    def quantile(share: float) -> float:
        return latencies[min(len(latencies) - 1, int(len(latencies) * share))] if latencies else 0.0

    return Measurement(
        in_flight=in_flight,
        requests=len(latencies),
        errors=errors,
        seconds=took,
        rate=len(latencies) / took,
        p50=quantile(0.50),
        p95=quantile(0.95),
        p99=quantile(0.99),
        slowest=quantile(1.0),
    )


def _table(revision: str, what: str, connected: float, first: float, runs: list[Measurement]) -> str:
    lines = [
        f"{what}, revision {revision}",
        f"connected after {connected:.0f} ms, first answer after {first:.0f} ms",
        "",
        "in flight  requests  errors  seconds   per second    p50 ms    p95 ms    p99 ms   slowest",
    ]
    lines += [
        f"{run.in_flight:9}  {run.requests:8}  {run.errors:6}  {run.seconds:7.1f}  {run.rate:11,.0f}"
        f"  {run.p50:8.3f}  {run.p95:8.3f}  {run.p99:8.3f}  {run.slowest:8.3f}"
        for run in runs
    ]
    return "\n".join(lines) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = client_parser("bench", "Measure how fast a server answers, one by one and many at once.")
    parser.add_argument("tool", metavar="TOOL", nargs="?", help="the tool to call (default: ping)")
    parser.add_argument(
        "values", metavar="key=value", nargs="*", help="its arguments: key=value, or key:=JSON"
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one run (default: 3)")
    parser.add_argument(
        "--in-flight",
        default="1,64,256",
        metavar="N,N",
        help="requests under way at once (default: 1,64,256)",
    )
    return parser
