"""``python -m chaos [--only PATTERN] [--transport http|stdio]``: exit code 1 when anything broke."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys

from .running import TRANSPORTS, play
from .scenarios import SCENARIOS, NoDisk


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--only", default="", metavar="PATTERN", help="those whose names match")
    parser.add_argument("--transport", choices=TRANSPORTS, help="one transport only")
    options = parser.parse_args()
    broken = 0
    for scenario in SCENARIOS:
        for transport in TRANSPORTS:
            if re.search(options.only, scenario.__name__) and options.transport in (None, transport):
                try:
                    report = asyncio.run(play(scenario, transport))
                except NoDisk as error:
                    print(f"left out {transport} {scenario.__name__}: {error}")
                    continue
                broken += not report.held
                print(report.line(), flush=True)
    print(f"{broken} broke" if broken else "everything held")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
