"""``python -m bench``: Dovetail, the others and the limit, side by side, in one run on this machine.

Prints every figure, says which promised ratio is kept, and writes ``results/bench.json`` and ``results/bench.svg``.
"""

from __future__ import annotations

import argparse
import compileall
import sys
import time

import msgspec

from . import chart, idle, peers, report, wrk
from .measures import (
    calls,
    erlmcp,
    guarded,
    hops,
    listeners,
    programs,
    sessions,
    start,
    tools,
    verified,
    workers,
)
from .rounds import QUICK, Options, say
from .samples import Figure, Figures

PARTS = (
    "start", "stdio", "http", "auth", "tcp", "sessions", "guarded", "hops", "workers", "listeners", "tools", "erlmcp",
    "handle", "clients",
)  # fmt: skip
RESULTS = peers.ROOT / "results"


def main() -> int:
    options = _options()
    begun = time.monotonic()
    gone = [name for name in ("sdk", "fastmcp", "minimcp", "node") if not peers.installed(name)]
    if gone:
        print("\n".join(peers.missing(name) for name in gone), file=sys.stderr)
        return 1
    if options.driver:
        return _drivers()
    if options.redraw:
        return _redraw()
    figures = measured(options.settings)
    seconds = time.monotonic() - begun
    print(report.tables(figures))
    print()
    print(report.promises(figures))
    print(report.noise(figures))
    for skipped in figures.skipped:
        print(f"  left out: {skipped}")
    print(f"\n{seconds:.0f} s")
    if options.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "bench.json").write_bytes(report.as_json(figures, seconds))
        (RESULTS / "bench.svg").write_text(chart.svg(figures))
        print("written: results/bench.json, results/bench.svg")
    return 0


def measured(options: Options) -> Figures:
    """Run the parts that are wanted."""
    # Installed peers are compiled; a checkout without bytecode would compile at each start.
    compileall.compile_dir(peers.ROOT / "src", quiet=1)
    figures = Figures()
    ways = {
        "start": lambda: start.measure(figures, options),
        "stdio": lambda: calls.measure("stdio", figures, options),
        "http": lambda: calls.measure("http", figures, options),
        "auth": lambda: verified.measure(figures, options),
        "tcp": lambda: calls.measure("tcp", figures, options),
        "sessions": lambda: sessions.measure(figures, options),
        "guarded": lambda: guarded.measure(figures, options),
        "hops": lambda: hops.measure(figures, options),
        "workers": lambda: workers.measure(figures, options),
        "listeners": lambda: listeners.measure(figures, options),
        "tools": lambda: tools.measure(figures, options),
        "erlmcp": lambda: erlmcp.measure(figures, options),
        "handle": lambda: programs.handle(figures, options),
        "clients": lambda: programs.clients(figures, options),
    }
    for part in PARTS:
        if options.wants(part):
            try:
                ways[part]()
            except Exception as error:
                figures.skipped.append(f"{part}: {type(error).__name__}: {error}"[:400])
                say(figures.skipped[-1])
    return figures


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about two minutes: fewer and shorter rounds")
    parser.add_argument("--only", default="", metavar="PARTS", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--rounds", type=int, help="how often everything is repeated")
    parser.add_argument(
        "--driver", action="store_true", help="measure the drivers themselves, and nothing else"
    )
    parser.add_argument(
        "--redraw", action="store_true", help="judge and draw the figures of results/bench.json anew"
    )
    parser.add_argument("--no-write", action="store_true", help="leave results/bench.* alone")
    found = parser.parse_args()
    settings = QUICK if found.quick else Options()
    if found.only:
        settings = msgspec.structs.replace(settings, only=found.only)
    if found.rounds:
        settings = msgspec.structs.replace(settings, rounds=found.rounds)
    found.settings = settings
    found.write = not (found.quick or found.only or found.no_write)
    return found


def _redraw() -> int:
    figures = Figures()
    kept = msgspec.json.decode((RESULTS / "bench.json").read_bytes())
    figures.all = msgspec.convert(kept["figures"], list[Figure])
    kept |= {
        "figures": report.as_data(figures),
        "promises": report.judged(figures),
        "noise": report.noise(figures),
    }
    (RESULTS / "bench.json").write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
    (RESULTS / "bench.svg").write_text(chart.svg(figures))
    print(report.promises(figures))
    print(report.noise(figures))
    return 0


def _drivers() -> int:
    print(f"stdio driver against canned replies: {idle.rate():,.0f} calls/s")
    own, other = wrk.compare()
    print(f"HTTP driver against the bare app: {own:,.0f} calls/s")
    print("wrk is not installed" if other is None else f"wrk against the same: {other:,.0f} calls/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
